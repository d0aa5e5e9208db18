#pragma once

#include "bind.h"

namespace etrace::python {

// Values like those, of the leaves alone that a dictionary names. ValueError for another shape, KeyError for
// another name.
ParamValues named_values(const ParamValues& like, nb::handle given);

}  // namespace etrace::python
