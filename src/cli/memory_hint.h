// What to do where memory runs out.
#pragma once

#include <string>

#include "base/memory.h"

namespace etrace::cli {

// Calls f; an error of memory that it throws also says which options help.
template <class F>
void with_memory_hint(const char* hint, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    if (!is_out_of_memory(e)) throw;
    throw ValueError(e.stage(), e.message() + "; " + hint, e.origin());
  }
}

}  // namespace etrace::cli
