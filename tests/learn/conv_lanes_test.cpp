// L100: a convolution written for one sample, mapped over lanes, is still learned online.
#include <gtest/gtest.h>

#include "etrace/etp.h"
#include "etrace/learner.h"
#include "etrace/ops/numpy.h"
#include "learn/scenario.h"
#include "support/learning.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using namespace testing;

struct ConvCell : Module {
  ParamState& kernel = param("kernel", Random(3).f64({4, 2, 3}));
  HiddenState& v = hidden("v", {4, 6}, Dtype::F64);
  Array update(const Array& x) override {
    const Array drive = squeeze(conv(expand_dims(x, {0}), kernel.value()), {0});
    const Array kept = 0.8 * v.value();
    v.set(kept + tanh(drive));
    return v.value();
  }
};

TEST(ConvLanes, L100_VmapIsTheSumOfItsLanes) {
  constexpr std::int64_t kLaneCount = 3;
  Random random(5);
  const Array x = random.f64({5, kLaneCount, 2, 6}), y = random.f64({5, kLaneCount, 4, 6});
  const Loss squared = [](const Array& out, const Array& target) { return sum(square(out - target)); };
  const SequenceOptions sums{.reduction = Reduction::Sum};
  ConvCell mapped;
  Learner lanes = compile(mapped, D_RTRL(), zeros({kLaneCount, 2, 6}, Dtype::F64),
                          {.batch_size = kLaneCount, .vmap = true});
  ASSERT_EQ(lanes.graph().hidden_param_op_relations.size(), 1U);
  EXPECT_EQ(lanes.graph().hidden_param_op_relations[0].primitive, &etp_conv_p);
  const Array found = lanes.etrace_grad(x, y, squared, sums).grads.values[0];
  Array total;
  for (std::int64_t l = 0; l < kLaneCount; ++l) {
    ConvCell cell;
    Learner one = compile(cell, D_RTRL(), zeros({2, 6}, Dtype::F64));
    const auto lane = [&](const Array& s) { return squeeze(slice_axis(s, 1, l, l + 1), {1}); };
    const Array g = one.etrace_grad(lane(x), lane(y), squared, sums).grads.values[0];
    total = total.defined() ? total + g : g;
  }
  EXPECT_LT(max(abs(found - total)).item<double>(), 1e-12 * max(abs(total)).item<double>());
  EXPECT_GT(max(abs(total)).item<double>(), 1e-3);
}

}  // namespace
}  // namespace etrace
