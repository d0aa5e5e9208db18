// What every file of the extension includes first: nanobind, the library, and one translation of each type.
//
// Each subject is a file with one function `void bind_x(nb::module_&)`, listed in core.cpp.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "etrace/etrace.h"
#include "text.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT: "x"_a in every definition

#include "casters.h"
