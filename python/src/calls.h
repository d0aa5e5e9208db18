// Python functions as functions of the library. They are called while something is recorded, with the GIL
// held, and live no longer than the call that was given them.
#pragma once

#include "bind.h"
#include "convert.h"

namespace etrace::python {

// The result of a Python function as an array of its own type; the text of the error names what returned it.
Array returned(nb::handle result, const char* who);
// A list or tuple of arrays, as the wrappers in etrace/_transforms.py return them.
Arrays returned_list(nb::handle result);
nb::list to_list(ArraySpan);

Function flat_function(nb::object f);           // f(*arrays) -> list of arrays
WeightFn weight_function(const nb::object& f);  // f(array) -> array; None: the identity

}  // namespace etrace::python
