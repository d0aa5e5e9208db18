// s = H((V − V_th)/V_th)   V ← V − V_th·s   τ dV/dt = −V + x·W
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/lif.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct LeakySpikeReadoutOptions {
  Time tau = 5.0, dt = 1.0;
  Voltage V_th = 1.0;
  Reset reset = Reset::Soft;
  Initializer weight_init = init::kaiming_normal();
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// Output neurons that spike. Parameter W [in, out], a bare array; hidden state V [out]; returns the spikes of
// the new V.
class LeakySpikeReadout : public IF {
 public:
  using Options = LeakySpikeReadoutOptions;
  LeakySpikeReadout(std::int64_t in_size, std::int64_t out_size, const LeakySpikeReadoutOptions& = {});
  Array update(const Array& x) override;
  Unit input_unit() const override { return {}; }

  ParamState& W;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
