// Every built-in model learns for 200 updates in both precisions: losses, gradients, parameters and states
// stay finite all the way.
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/learner.h"
#include "etrace/models.h"
#include "etrace/random.h"
#include "etrace/rules.h"

namespace etrace {
namespace {

constexpr std::int64_t kBatch = 2, kSteps = 5, kUpdates = 200;

void expect_finite(const Array& values, const std::string& what) {
  for (const double v : values.tensor().to_doubles()) ASSERT_TRUE(std::isfinite(v)) << what;
}

void expect_finite(const ParamValues& all, const std::string& what) {
  for (std::size_t i = 0; i < all.leaves.size(); ++i)
    expect_finite(all.values[i], what + " of " + to_string(all.leaves[i]));
}

void train(const BuiltinModel& row, Dtype dtype) {
  Dims sizes = row.sizes;
  for (std::int64_t& n : sizes) n = std::min<std::int64_t>(n, 4);
  const ReadyModel ready = make_model(row.name, {.sizes = sizes, .batch = kBatch, .dtype = dtype});
  Learner learner = compile(*ready.module, D_RTRL(), ready.example, {.batch_size = kBatch});
  optim::Adam adam(*ready.module, 1e-2);
  const Array targets = random::normal(random::key(7), {kSteps, kBatch, sizes.back()}, dtype);
  for (std::int64_t i = 0; i < kUpdates; ++i) {
    const Array key = random::fold_in(random::key(3), i);
    const Array xs = random::normal(key, {kSteps, kBatch, sizes.front()}, dtype);
    if (i % 40 == 0) {  // else states and traces go on, over the update
      learner.reset_state();
      learner.reset_model_state();
    }
    const SequenceGradient result = learner.etrace_grad(xs, targets, loss::mse);
    const std::string when = " in update " + std::to_string(i);
    ASSERT_TRUE(std::isfinite(result.loss)) << when;
    ASSERT_NO_FATAL_FAILURE(expect_finite(result.grads, "the gradient" + when));
    adam.update(result.grads);
    ASSERT_NO_FATAL_FAILURE(expect_finite(param_values(*ready.module), "the value" + when));
  }
  for (const std::string& name : learner.state_names())
    expect_finite(learner.state(name), "the state " + name);
}

class TrainModels : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainModels, TwoHundredUpdatesStayFinite) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
    SCOPED_TRACE(name(dtype));
    train(*find_builtin_model(GetParam()), dtype);
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const BuiltinModel& m : builtin_models()) names.emplace_back(m.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Builtin, TrainModels, ::testing::ValuesIn(model_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace etrace
