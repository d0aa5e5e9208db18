// Each constraint is a projection, element by element.
#include "optim/constraint.h"

#include <fmt/format.h>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"

namespace etrace::optim {

namespace {

using Kind = Constraint::Kind;

// Broadcasting may spread the values over the leaf, never the leaf over the values.
void require_fits(const Array& values, std::string_view what, std::string_view leaf, const Shape& shape) {
  const auto joined = numpy_broadcast_shapes(values.shape(), shape);
  if (!joined || *joined != shape)
    throw ValueError("constraint",
                     fmt::format("{} of shape {} for {} of shape {}; expected that shape, or one "
                                 "that broadcasts to it",
                                 what, to_string(values.shape()), leaf, to_string(shape)));
}

Array as_mask(const Array& values) {
  return values.dtype() == Dtype::Bool ? values : not_equal_to(values, 0);
}

}  // namespace

Constraint non_negative(std::string leaf) { return {std::move(leaf), Kind::NonNegative, {}}; }
Constraint non_positive(std::string leaf) { return {std::move(leaf), Kind::NonPositive, {}}; }
Constraint keep_sign(std::string leaf) { return {std::move(leaf), Kind::KeepSign, {}}; }
Constraint keep_sign(std::string leaf, Array signs) {
  return {std::move(leaf), Kind::KeepSign, std::move(signs)};
}
Constraint fixed_mask(std::string leaf, Array mask) { return {std::move(leaf), Kind::Mask, std::move(mask)}; }

bool keeps_initial_sign(const Constraint& c) { return c.kind == Kind::KeepSign && !c.values.defined(); }

void check_constraint(const Constraint& c, std::string_view leaf, const Shape& shape) {
  if (c.kind == Kind::Mask && !c.values.defined())
    throw ValueError("constraint", fmt::format("the mask of {} is undefined; give one", leaf));
  if (c.values.defined()) require_fits(c.values, c.kind == Kind::Mask ? "a mask" : "signs", leaf, shape);
}

Array mask_gradient(const Constraint& c, const Array& grad) {
  return c.kind == Kind::Mask ? where(as_mask(c.values), grad, zeros_like(grad)) : grad;
}

Array project(const Constraint& c, const Array& param, const Array& initial_sign) {
  switch (c.kind) {
    case Kind::NonNegative:
      return maximum(param, 0.0);
    case Kind::NonPositive:
      return minimum(param, 0.0);
    case Kind::KeepSign: {
      const Array allowed = keeps_initial_sign(c) ? initial_sign : convert(sign(c.values), param.dtype());
      return where(param * allowed < 0.0, zeros_like(param), param);
    }
    case Kind::Mask:
      break;
  }
  return where(as_mask(c.values), param, zeros_like(param));
}

}  // namespace etrace::optim
