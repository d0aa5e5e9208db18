// A recurrent layer of LIF neurons: s = spikes of the step before, y = [x, s]·W + b, and
//   Synapse::Expon   g ← e^(−dt/τ_syn)·g + y;  the current is g
//   Synapse::Delta   y is added to V
#pragma once

#include "etrace/nn/lif.h"
#include "etrace/nn/linear.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

enum class Synapse : std::uint8_t { Delta, Expon };

struct LIFLayerOptions {
  LIFOptions neuron = {};
  Synapse synapse = Synapse::Expon;
  Time tau_syn = 10.0;  // not used by Synapse::Delta
  // Rows of W for the input [in, out] and for the spikes [out, out]: each block has its own fan.
  Initializer input_init = init::kaiming_normal(), recurrent_init = init::kaiming_normal();
  double input_scale = 1.0, recurrent_scale = 1.0;  // factors of what the initialisers give
  Initializer bias_init = init::zeros();            // empty: no bias
  std::uint64_t seed = 0;
};

// Hidden states V [out] and, with Synapse::Expon, g [out]; W and b are the parameter syn/weight. Returns the
// spikes of the new V.
class LIFLayer : public LIF {
 public:
  using Options = LIFLayerOptions;
  LIFLayer(std::int64_t in_size, std::int64_t out_size, const LIFLayerOptions& = {});
  Array update(const Array& x) override;
  Unit input_unit() const override { return {}; }

  HiddenState* const g;  // null with Synapse::Delta
  Linear& syn;

 private:
  StepConstant tau_syn_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
