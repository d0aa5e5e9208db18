// A program that finds etrace by pkg-config.
#include <etrace/etrace.h>

#include <iostream>

int main() { std::cout << etrace::array({1.0, 2.0}) << "\n"; }
