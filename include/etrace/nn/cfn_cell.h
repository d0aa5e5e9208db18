// f = σ(Wf[x, h])   i = σ(Wi[x, h])   h ← f⊙φ(h) + i⊙φ(Wh x)
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// The chaos-free network. φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h. No weight
// acts through another one, so all three are learned online.
class CFNCell : public NumberLayer {
 public:
  using Options = CellOptions;
  CFNCell(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState& h;
  Linear &Wf, &Wi, &Wh;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
