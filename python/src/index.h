// Indexing as in NumPy, for concrete and traced arrays.
#pragma once

#include "bind.h"

namespace etrace::python {

// x[index]: integers, slices, ..., None, integer arrays, boolean arrays of known value. A known position
// outside of the array is an IndexError; a traced one is moved to the nearest position inside.
Array get_item(const Array& x, nb::handle index);

void bind_index(nb::class_<Array>&, nb::module_&);

}  // namespace etrace::python
