// The benchmark workloads are what their description says.
#include "bench/workloads.h"

#include <gtest/gtest.h>

namespace etrace::bench {
namespace {

// Share of the neurons of W3 that fire per step, over steps [from, to).
double firing(const std::string& name, std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kBatch = 4;
  const Workload w = workload(name, kBatch);
  auto& model = dynamic_cast<W3&>(*w.model);
  init_all_states(model, kBatch);
  const Array xs = w.inputs(1, to);
  double fired = 0.0;
  for (std::int64_t t = 0; t < to; ++t) {
    model.update(squeeze(slice_axis(xs, 0, t, t + 1), {0}));
    if (t >= from) fired += mean(convert(model.v.value() >= 1.0, Dtype::F32)).item<double>();
  }
  return fired / static_cast<double>(to - from);
}

TEST(Workloads, W3FiresAsTrainedNetworksDo) {
  EXPECT_GT(firing("W3", 0, 100), 0.05);
  EXPECT_LT(firing("W3", 0, 200), 0.10);
}

TEST(Workloads, W3SaturatedFiresNearlyAlways) { EXPECT_NEAR(firing(kW3Saturated, 20, 100), 0.79, 0.03); }

}  // namespace
}  // namespace etrace::bench
