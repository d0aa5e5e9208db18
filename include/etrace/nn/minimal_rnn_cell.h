// z = φ(phi(x))   u = σ(W_u[z, h])   h ← u⊙h + (1 − u)⊙z
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. phi is a Linear; it acts on h
// directly and through W_u, of which the second is not learned online.
class MinimalRNNCell : public NumberLayer {
 public:
  using Options = CellOptions;
  MinimalRNNCell(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState& h;
  Linear &phi, &W_u;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
