// Reverse mode through a loop sums the cotangents of what all steps read. Where a step's share of such a sum
// is a product of values of that step, as that of a weight, the loop need not form it: it hands out the
// factors, and one product after the loop sums over the steps as well, [K·B, I]ᵀ·[K·B, O] instead of K
// products and K passes over the sum.
#pragma once

#include "etrace/array.h"
#include "etrace/transform.h"

namespace etrace {

class StepProducts {
 public:
  // back: (consts, xs, …) -> (shares, …), one step.
  struct Layout {
    std::size_t consts, xs, shares;
  };
  StepProducts(ClosedJaxpr back, const Layout&);

  // (consts, xs, …) -> (shares that stay, …, factors)
  const ClosedJaxpr& body() const { return body_; }
  const Mask& stays() const { return stays_; }  // one per share
  std::size_t num_factors() const { return factors_.size(); }
  // The sum over steps of a share that does not stay; xs and factors have a leading axis of steps.
  Array sum(std::size_t share, ArraySpan xs, ArraySpan factors) const;

 private:
  std::optional<Eqn> product_of(const ClosedJaxpr& back, std::size_t share) const;

  Layout layout_;
  ClosedJaxpr body_;
  Mask stays_;
  std::vector<std::optional<Eqn>> products_;  // one per share
  std::vector<Var> xs_, factors_;
};

}  // namespace etrace
