// Native code for a program.
#pragma once

#include <memory>
#include <string>

#include "core/workspace.h"
#include "emit/program.h"
#include "etrace/backend.h"
#include "kernels/context.h"
#include "native/module.h"

#pragma GCC visibility push(default)
namespace etrace::native {

// IoError if there is no compiler, if it fails, or if its result can be loaded from nowhere. Runs use the
// workspace where there is one and nobody else uses it, else memory of their own.
std::shared_ptr<const Runnable> compile_native(const Program&, const etp_context& context = default_context(),
                                               std::shared_ptr<Workspace> = {});

// The two halves of it.
struct EmittedProgram {
  emit::EmitProgram program;
  std::string source;
};
EmittedProgram emit_program(const Program&);
// Its shared object, from the cache or compiled. What the cache cannot take is compiled without it.
std::shared_ptr<const LoadedModule> module_of(const EmittedProgram&);
std::shared_ptr<const Runnable> compile_emitted(EmittedProgram, const etp_context&,
                                                std::shared_ptr<Workspace> = {});

}  // namespace etrace::native
#pragma GCC visibility pop
