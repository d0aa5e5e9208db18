// Part of every test program: what names no backend runs in the interpreter, which starts at once and
// compiles nothing. Tests of native code name theirs. ETRACE_BACKEND=native runs all of them natively.
#include <cstdlib>

namespace {
[[maybe_unused]] const int kInterpreterByDefault = ::setenv("ETRACE_BACKEND", "interpreter", 0);
}  // namespace
