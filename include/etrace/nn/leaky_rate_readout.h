// r ← e^(−dt/τ)·r + x·W
#pragma once

#include "etrace/nn/constant.h"
#include "etrace/nn/init.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct LeakyRateReadoutOptions {
  Time tau = 5.0, dt = 1.0;
  Initializer weight_init = init::kaiming_normal();
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// Filtered rates of spikes, weighted. Parameter W [in, out], a bare array; hidden state r [out]; returns the
// new r. W reaches a hidden state, so it has a trace of its own.
class LeakyRateReadout : public Dynamics {
 public:
  using Options = LeakyRateReadoutOptions;
  LeakyRateReadout(std::int64_t in_size, std::int64_t out_size, const LeakyRateReadoutOptions& = {});
  Array update(const Array& x) override;

  HiddenState& r;
  ParamState& W;

 private:
  StepConstant tau_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
