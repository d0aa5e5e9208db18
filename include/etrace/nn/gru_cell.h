// z = σ(Wz[x, h])   r = σ(Wr[x, h])   c = φ(Wh[x, r⊙h])   h ← (1 − z)⊙h + z⊙c
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h.
class GRUCell : public NumberLayer {
 public:
  using Options = CellOptions;
  GRUCell(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState& h;
  Linear &Wz, &Wr, &Wh;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
