// Constraints on one leaf.
#pragma once

#include "etrace/optim.h"

namespace etrace::optim {

bool keeps_initial_sign(const Constraint&);

// ValueError if a constraint does not fit a leaf of that shape.
void check_constraint(const Constraint&, std::string_view leaf, const Shape& shape);

// The gradient without what a mask keeps at zero.
Array mask_gradient(const Constraint&, const Array& grad);

// The nearest allowed value. `initial_sign` is read by constraints that keep the initial sign.
Array project(const Constraint&, const Array& param, const Array& initial_sign);

}  // namespace etrace::optim
