// Errors that only Python has a name for.
#pragma once

#include "etrace/error.h"

namespace etrace::python {

// A position outside of an array: Python's loops end by it, so it must be an IndexError there.
struct IndexError : ValueError {
  using ValueError::ValueError;
};

}  // namespace etrace::python
