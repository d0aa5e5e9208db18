// Native code that is compiled while the interpreter already runs.
#pragma once

#include <functional>
#include <memory>

#include "core/workspace.h"

#pragma GCC visibility push(default)
namespace etrace::native {

// Runs at once; from the moment on that its native code is loaded, with that. Each run is by one of the two
// from beginning to end, and both give the same bits. If native code cannot be made, a line on stderr says so
// once and the interpreter stays.
std::shared_ptr<const Runnable> compile_in_background(const Program&, const std::shared_ptr<Workspace>& = {});

// In the compiling thread, after what waits there. A job that throws is given up, and its program stays
// interpreted.
void run_in_background(std::function<void()> job);
// Returns when everything that was asked for so far is compiled or has failed.
void wait_for_compilations();
// The same without what has not begun, which stays interpreted: for a process that is about to end.
void drop_compilations();

// Says once per process why programs run in the interpreter.
void say_why_interpreted(const std::string& reason);

}  // namespace etrace::native
#pragma GCC visibility pop
