// Native code for a program.
#pragma once

#include <memory>
#include <string>

#include "emit/program.h"
#include "etrace/backend.h"

#pragma GCC visibility push(default)
namespace etrace::native {

// IoError if there is no compiler, if it fails, or if its result can be neither kept nor loaded.
std::shared_ptr<const Runnable> compile_native(const Program&);

// The two halves of it.
struct EmittedProgram {
  emit::EmitProgram program;
  std::string source;
};
EmittedProgram emit_program(const Program&);
// Path of its shared object, compiled or from the cache.
std::string object_of(const EmittedProgram&);
std::shared_ptr<const Runnable> compile_emitted(EmittedProgram);

}  // namespace etrace::native
#pragma GCC visibility pop
