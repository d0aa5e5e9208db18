// f = σ(Wf[x, h] + β)   r = σ(Wr[x, h] − β)   q = 2rf + (1 − 2r)f²
// c ← q⊙c + (1 − q)⊙φ(Wu[x, h])   h ← σ(Wo[x, h])⊙φ(c)
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// The LSTM with refined gates. φ = tanh, weights Xavier normal, no biases but β [out], the parameter `bias`:
// σ(β) is at first uniform in (1/out, 1 − 1/out), so that units forget at many speeds. Hidden states c [out]
// and h [out]; returns the new h.
class URLSTMCell : public NumberLayer {
 public:
  using Options = CellOptions;
  URLSTMCell(std::int64_t in_size, std::int64_t out_size, CellOptions = {});  // bias_init is not used
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState &c, &h;
  Linear &Wu, &Wf, &Wr, &Wo;
  ParamState& bias;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
