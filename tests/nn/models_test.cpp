// The registry of built-in models: each runs, verifies and trains.
#include "etrace/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "etrace/random.h"
#include "etrace/verify.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(Models, EveryOneTracesRunsAndSaves) {
  for (const BuiltinModel& entry : builtin_models())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64})
      for (const std::optional<std::int64_t> batch :
           {std::optional<std::int64_t>(), std::optional<std::int64_t>(3)}) {
        SCOPED_TRACE(entry.name);
        const ReadyModel ready = make_model(entry.name, {.batch = batch, .dtype = dtype});
        const TracedStep step = trace_step(*ready.module, ready.example, std::string(entry.name));
        EXPECT_TRUE(step.untouched.empty());
        EXPECT_TRUE(step.unknown.empty());
        check(step.model.program);
        Tensors in = to_tensors(ready.example);
        for (std::size_t i = 1; i < step.model.inputs.size(); ++i) in.push_back(step.model.inputs[i].init);
        const Tensors out = evaluate(step.model.program, in);
        EXPECT_EQ(out[0].dtype(), dtype);
        EXPECT_EQ(out[0].shape().rank(), batch ? 2U : 1U);
        EXPECT_EQ(out[0].shape().back(), entry.sizes.back());
        EXPECT_TRUE(equal(read_model(write_model(step.model)).program, step.model.program));
      }
}

// Every cell and neuron learns online: theory and measurement agree, and no recurrent weight is silent.
TEST(Models, EveryOneVerifies) {
  for (const BuiltinModel& entry : builtin_models()) {
    SCOPED_TRACE(entry.name);
    const ReadyModel ready = make_model(entry.name, {.dtype = Dtype::F64});
    const Shape in = ready.example[0].shape();
    const Array xs = random::normal(random::key(1), in.with_front(15), Dtype::F64);
    const Array ys = random::normal(random::key(2), Shape{15, entry.sizes.back()}, Dtype::F64);
    const VerifyReport report =
        verify(*ready.module, D_RTRL(), xs, ys, loss::mse, {.windows = {4}, .lags = 0});
    EXPECT_TRUE(report.met()) << report.to_string();
    for (const VerifyReport::Leaf& leaf : report.leaves) EXPECT_TRUE(leaf.alive) << to_string(leaf.id);
  }
}

TEST(Models, EveryOneTrains) {
  for (const BuiltinModel& entry : builtin_models()) {
    SCOPED_TRACE(entry.name);
    const ReadyModel ready = make_model(entry.name, {.batch = 2});
    Learner learner = compile(*ready.module, D_RTRL(), ready.example, {.batch_size = 2});
    optim::Adam adam(*ready.module, 1e-3);
    const Array xs = random::normal(random::key(1), ready.example[0].shape().with_front(8));
    const Array ys = random::normal(random::key(2), Shape{8, 2, entry.sizes.back()});
    const ParamValues before = param_values(*ready.module);
    adam.update(learner.etrace_grad(xs, ys, loss::mse).grads);
    const ParamValues after = param_values(*ready.module);
    double moved = 0.0;
    for (std::size_t i = 0; i < after.values.size(); ++i) {
      EXPECT_TRUE(all(is_finite(after.values[i])).item<bool>()) << to_string(after.leaves[i]);
      moved = std::max(moved, max(abs(after.values[i] - before.values[i])).item<double>());
    }
    EXPECT_GT(moved, 1e-4);
  }
}

TEST(Models, NamesAreSortedAndFound) {
  const auto all = builtin_models();
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const char* name : {"rnn", "two_layer_rnn", "gru", "lif"})
    EXPECT_NE(find_builtin_model(name), nullptr) << name;
  EXPECT_EQ(find_builtin_model("grru"), nullptr);
  EXPECT_THAT(message_of<ValueError>([] { make_model("grru"); }),
              AllOf(HasSubstr("grru"), HasSubstr("gru, hodgkin_huxley")));
  EXPECT_THAT(message_of<ValueError>([] { make_model("gru", {.sizes = {3}}); }), HasSubstr("3 sizes"));
}

TEST(Models, NotebookNetwork) {
  const ReadyModel ready = make_model("two_layer_rnn");
  const Model model = trace_step(*ready.module, ready.example).model;
  EXPECT_EQ(ready.example[0].shape(), (Shape{10}));
  const auto is_product = [](const Eqn& e) { return e.prim == &etp_mv_p; };
  EXPECT_EQ(std::count_if(model.program.jaxpr.eqns.begin(), model.program.jaxpr.eqns.end(), is_product), 3);
  EXPECT_EQ(to_string(model.inputs[2].path), "rnn1/W/weight");
  EXPECT_EQ(model.program.jaxpr.invars[3].aval.shape, (Shape{42, 32}));
}

}  // namespace
}  // namespace etrace
