// λ = exp(−e^ν + i·e^θ)   h ← λ⊙h + e^γ⊙(B x)   y = Re(C h) + D⊙x
// in real numbers, with a = e^(−e^ν), b = e^θ:
//   h_re ← a·cos(b)⊙h_re − a·sin(b)⊙h_im + e^γ⊙(B_re x)   h_im ← a·sin(b)⊙h_re + a·cos(b)⊙h_im + e^γ⊙(B_im x)
//   y = C_re h_re − C_im h_im + D⊙x
#pragma once

#include "etrace/nn/linear.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct LRUOptions {
  double r_min = 0.0, r_max = 1.0;  // |λ| at first: uniform over this ring
  double max_phase = 6.28;          // the phase of λ at first: uniform in [0, max_phase)
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// The linear recurrent unit: complex states whose transition is diagonal, so that D-RTRL is exact for all
// that acts on them (ν, θ, γ, B_re, B_im). Hidden states h_re, h_im [hidden]; returns y [model]. Parameters
// nu_log, theta_log, gamma_log [hidden] and D [model], and the layers B_re, B_im, C_re, C_im without biases.
class LRUCell : public NumberLayer {
 public:
  using Options = LRUOptions;
  LRUCell(std::int64_t model_size, std::int64_t hidden_size, const LRUOptions& = {});
  Array update(const Array& x) override;

  ParamState &nu_log, &theta_log, &gamma_log;
  HiddenState &h_re, &h_im;
  Linear &B_re, &B_im, &C_re, &C_im;
  ParamState& D;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
