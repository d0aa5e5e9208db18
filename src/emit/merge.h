// Two nests as one: the axes of both are matched, then their statements run side by side.
#pragma once

#include <optional>

#include "emit/program.h"

namespace etrace::emit {

// `first` runs before `second` now. Empty if they do not walk the same positions, or if one would read or
// overwrite an element that the other needs at another position; `why` then says so.
std::optional<Nest> merge(const Nest& first, const Nest& second, const char*& why);

}  // namespace etrace::emit
