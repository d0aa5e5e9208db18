// z = σ(W_z[x, h])   h ← (1 − z)⊙h + z⊙φ(W_x x)
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. The candidate does not look at
// h, so both weights reach h directly and both are learned online.
class MiniGRU : public NumberLayer {
 public:
  using Options = CellOptions;
  MiniGRU(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState& h;
  Linear &W_x, &W_z;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
