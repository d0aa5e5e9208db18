// i = Wi[x, h]   g = Wg[x, h]   f = Wf[x, h]   o = Wo[x, h]
// c ← σ(f + 1)⊙c + σ(i)⊙φ(g)   h ← σ(o)⊙φ(c)
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// φ = tanh, weights Xavier normal. Hidden states c [out] and h [out]; returns the new h. The 1 beside f lets
// a fresh cell remember.
class LSTMCell : public NumberLayer {
 public:
  using Options = CellOptions;
  LSTMCell(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState &c, &h;
  Linear &Wi, &Wg, &Wf, &Wo;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
