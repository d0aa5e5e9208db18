// Native code for a program, now.
#pragma once

#include <memory>

#include "etrace/backend.h"

namespace etrace::native {

// IoError if there is no compiler, if it fails, or if its result can be neither kept nor loaded.
std::shared_ptr<const Runnable> compile_native(const Program&);

}  // namespace etrace::native
