// f = σ(W_f[x, h])   i = σ(W_i[x, h])   h ← f⊙h + i⊙φ(W_x x)
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. All three weights are learned
// online.
class MiniLSTM : public NumberLayer {
 public:
  using Options = CellOptions;
  MiniLSTM(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState& h;
  Linear &W_x, &W_f, &W_i;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
