// Paths of states: "a/b" or ("a", "b") in Python.
#pragma once

#include "bind.h"

namespace etrace::python {

StatePath path_of(nb::handle);      // of a tuple; a text becomes its parts, whole numbers positions
std::string path_text(nb::handle);  // "a/b" of either
nb::tuple path_tuple(const StatePath&);

// Parameters as somebody gives them: ParamValues, or a dictionary by name of some of those in `known`.
ParamValues params_from(nb::handle given, const ParamValues& known);

}  // namespace etrace::python
