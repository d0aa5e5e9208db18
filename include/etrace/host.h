// What the program around the library wants to be asked and told. A program that someone sits before stops a
// long call and shows warnings in its own way.
#pragma once

#include <functional>
#include <string>

#pragma GCC visibility push(default)
namespace etrace {

// Asked on the thread of a call, between two programs, and between two steps of loops that run at once, at
// most every 50 ms; it ends the call by throwing. What the call has done until then stands, as if its data
// had ended there: windows are whole, sums of gradients that nobody got are forgotten. Empty: nobody is
// asked.
void set_interrupt_hook(std::function<void()> hook);
// For whatever takes long, at a point where nothing is half done.
void check_interrupt();

// Takes every warning of the library, from any thread; it must not throw. Empty: a line on stderr.
void set_warning_sink(std::function<void(const std::string& text)> sink);
void warn(const std::string& text);

}  // namespace etrace
#pragma GCC visibility pop
