// f = σ(Wf[x, h])   c = φ(Wh[x, f⊙h])   h ← (1 − f)⊙h + f⊙c
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// The minimal gated unit. φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h. Wf acts on h
// directly and through Wh; the second way is not learned online.
class MGUCell : public NumberLayer {
 public:
  using Options = CellOptions;
  MGUCell(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState& h;
  Linear &Wf, &Wh;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
