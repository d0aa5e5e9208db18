// Equations that rearrange, sort, read or write along other axes than that of the samples. Private to
// compiler/.
#pragma once

#include <optional>
#include <vector>

#include "etrace/ir.h"

namespace etrace {

// Per operand: the axis that counts samples; none: it has none, and is the same for all.
using SampleAxes = std::vector<std::optional<std::size_t>>;

// The axis of the results, if sample b of them depends on sample b of the operands alone. None: it may depend
// on others, or the equation is not known here.
std::optional<std::size_t> samples_behind(const Eqn&, const SampleAxes&);

}  // namespace etrace
