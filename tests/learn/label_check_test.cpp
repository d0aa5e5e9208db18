// Labels are looked at before a program runs: as data, computed from data, in windows, with weights.
#include "learn/run/label_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/learner.h"
#include "etrace/metrics.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kBatch = 2, kClasses = 3;

struct Classifier : Module {
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 2, 4);
  nn::Linear& out = child<nn::Linear>("out", 4, kClasses);
  Array update(const Array& x) override { return out(rnn(x)); }
};

struct Compiled {
  explicit Compiled(VjpMethod method = VjpMethod::SingleStep) : method(method) {
    init_all_states(model, kBatch);
    graph = compile_etrace_graph(model, zeros({kBatch, 2}));
  }
  StepProgram objective(const StepFunction& f, const Aval& target, std::optional<std::int64_t> chunk = {},
                        std::optional<std::int64_t> samples = {}) const {
    return PlanBuilder(graph, D_RTRL(), method)
        .objective(f, Avals{{Dtype::F32, {kBatch, 2}}, target}, chunk, samples);
  }
  LabelCheck check(const StepFunction& f, const Aval& target, std::optional<std::int64_t> chunk = {}) const {
    return LabelCheck(objective(f, target, chunk));
  }
  VjpMethod method;
  Classifier model;
  ETraceGraph graph;
};

LossAndAux plain(StepCall& model, ArraySpan s) { return {loss::cross_entropy(model(s[0]), s[1]), {}}; }

const Aval kLabels{Dtype::I32, {kBatch}};
Array labels(const std::vector<double>& v) {
  return array(v, {static_cast<std::int64_t>(v.size()) / kBatch, kBatch}, Dtype::I32);
}
void look(const LabelCheck& check, const Array& targets, const Array& weights = {}) {
  const std::int64_t steps = targets.shape()[0];
  const ETraceGraph none;  // weights are those of steps
  check.sequences("etrace_grad", Arrays{zeros({steps, kBatch, 2}), targets},
                  weights.defined() ? weights : full({steps}, 1.0, Dtype::F32), SampleAxis(none, 1), 0,
                  steps);
}
// With a weight per sample.
void look(const Compiled& compiled, const StepFunction& f, const Array& targets, const Array& weights,
          std::optional<std::int64_t> chunk = {}) {
  const std::int64_t steps = targets.shape()[0];
  const Aval one{targets.dtype(), targets.shape().without(0)};
  const StepProgram objective = compiled.objective(f, one, chunk, kBatch);
  LabelCheck(objective).sequences("etrace_grad", Arrays{zeros({steps, kBatch, 2}), targets}, weights,
                                  SampleAxis(compiled.graph, kBatch, &objective), 0, steps);
}

TEST(LabelCheck, LabelsOfASequence) {
  const LabelCheck check = Compiled().check(plain, kLabels);
  EXPECT_FALSE(check.empty());
  look(check, labels({0, 1, 2, 2, 1, 0}));
  EXPECT_THAT(message_of<ValueError>([&] {
                look(check, labels({0, 1, 2, 3, 1, 0}));
              }),
              AllOf(HasSubstr("etrace_grad"), HasSubstr("label 3 at step 1, entry 1"), HasSubstr("3 classes"),
                    HasSubstr("Nothing was changed")));
  EXPECT_THAT(message_of<ValueError>([&] {
                look(check, labels({0, 1, 2, 1, -1, 0}));
              }),
              HasSubstr("label -1 at step 2, entry 0"));
}

TEST(LabelCheck, EveryTypeOfWholeNumbers) {
  for (const Dtype dtype : {Dtype::I32, Dtype::I64, Dtype::U32}) {
    const LabelCheck check = Compiled().check(plain, {dtype, {kBatch}});
    look(check, convert(labels({0, 1, 2, 2}), dtype));
    EXPECT_THAT(message_of<ValueError>([&] {
                  look(check, convert(labels({0, 1, 7, 2}), dtype));
                }),
                HasSubstr("label 7 at step 1"))
        << name(dtype);
  }
}

TEST(LabelCheck, WhatHasNoWeightMayHoldAnything) {
  const LabelCheck check = Compiled().check(plain, kLabels);
  look(check, labels({-1, -1, 2, 1}), array({0.0, 1.0}));
  EXPECT_THROW(look(check, labels({-1, -1, 2, 1}), array({1.0, 0.0})), ValueError);
}

// Labels of samples are those that reach the loss of one sample alone, whatever their number.
TEST(LabelCheck, WeightsPerSample) {
  const Array weights = array({{0.0, 1.0}, {0.5, 0.0}}), wrong = labels({-1, 0, 2, 9});
  const Function each = [](ArraySpan a) { return Arrays{loss::cross_entropy(a[0], a[1])}; };
  const StepFunction own = [&](StepCall& model, ArraySpan s) -> LossAndAux {
    return {vmap(each)(Arrays{model(s[0]), s[1]})[0], {}};
  };
  const StepFunction from_one = [&](StepCall& model, ArraySpan s) -> LossAndAux {
    return {vmap(each)(Arrays{model(s[0]), s[1] - 1})[0], {}};
  };
  const StepFunction turned = [&](StepCall& model, ArraySpan s) -> LossAndAux {
    return {vmap(each)(Arrays{model(s[0]), flip(s[1], 0) - 1})[0], {}};
  };
  // The same two labels for every sample, one of them for each half of the result.
  const StepFunction shared = [&](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array y = model(s[0]);
    const Function both = [&](ArraySpan a) {
      return Arrays{loss::cross_entropy(stack(Arrays{a[0], -a[0]}), s[1])};
    };
    return {vmap(both)(Arrays{y})[0], {}};
  };
  const Compiled model;
  look(model, own, wrong, weights);
  look(model, from_one, labels({0, 1, 3, 9}), weights);
  EXPECT_THROW(look(model, own, wrong, array({{0.0, 1.0}, {0.5, 0.1}})), ValueError);
  EXPECT_THROW(look(model, from_one, labels({1, 0, 3, 3}), weights), ValueError);
  for (const StepFunction& f : {turned, shared})
    EXPECT_THAT(message_of<ValueError>([&] { look(model, f, wrong, weights); }), HasSubstr("label"));
}

TEST(LabelCheck, WeightsPerSampleInWindows) {
  const Compiled multi(VjpMethod::MultiStep);
  const StepFunction windows = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array y = model(MultiStepData{s[0]});
    const Function each = [](ArraySpan a) { return Arrays{loss::cross_entropy(a[0], a[1])}; };
    return {vmap(vmap(each))(Arrays{y, s[1]})[0], {}};
  };
  const Array weights = array({{0.0, 1.0}, {0.5, 0.0}});
  look(multi, windows, labels({-1, 0, 2, 9}), weights, 2);
  EXPECT_THROW(look(multi, windows, labels({-1, 3, 2, 9}), weights, 2), ValueError);
  // Computed ones, in windows of as many steps as there are samples: the axis of time is none of samples.
  const auto computed = [](int turned) -> StepFunction {
    return [turned](StepCall& model, ArraySpan s) -> LossAndAux {
      const Array y = model(MultiStepData{s[0]});
      const Function each = [](ArraySpan a) { return Arrays{loss::cross_entropy(a[0], a[1])}; };
      const Array made = turned < 0 ? s[1] - 1 : flip(s[1], turned) - 1;
      return {vmap(vmap(each))(Arrays{y, made})[0], {}};
    };
  };
  look(multi, computed(-1), labels({0, 1, 3, 9}), weights, 2);
  EXPECT_THROW(look(multi, computed(-1), labels({0, 4, 3, 9}), weights, 2), ValueError);
  EXPECT_THROW(look(multi, computed(1), labels({1, 0, 9, 3}), weights, 2), ValueError);
}

TEST(LabelCheck, LabelsThatAreComputed) {
  // Counted from 1, and through a function of its own.
  const StepFunction from_one = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array y = model(s[0]);
    const Function shifted = [](ArraySpan a) { return Arrays{a[0] - 1}; };
    return {loss::cross_entropy(y, jit(shifted)(Arrays{s[1]})[0]), {}};
  };
  const LabelCheck check = Compiled().check(from_one, kLabels);
  look(check, labels({1, 3, 2, 3}));
  EXPECT_THAT(message_of<ValueError>([&] {
                look(check, labels({1, 3, 0, 3}));
              }),
              HasSubstr("label -1 at step 1"));
  look(check, labels({1, 3, 0, 3}), array({1.0, 0.0}));
  // What the model says is nobody's data.
  const StepFunction own = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array y = model(s[0]);
    return {loss::cross_entropy(y, argmax(y) + s[1]), {}};
  };
  EXPECT_TRUE(Compiled().check(own, kLabels).empty());
}

TEST(LabelCheck, WindowsAndTheirRest) {
  const Compiled multi(VjpMethod::MultiStep);
  const StepFunction windows = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array y = model(MultiStepData{s[0]});
    const Function each = [](ArraySpan a) { return Arrays{loss::cross_entropy(a[0], a[1])}; };
    return {vmap(each)(Arrays{y, s[1]})[0], {}};
  };
  const LabelCheck check = multi.check(windows, kLabels, 2);
  look(check, labels({0, 1, 2, 2, 1, 0, 1, 1}));
  // Five steps are two windows and a rest of one: a learner looks at all of them before it runs.
  Classifier model;
  Learner learner = compile(model, D_RTRL(), zeros({kBatch, 2}),
                            {.batch_size = kBatch, .vjp_method = VjpMethod::MultiStep});
  for (const std::int64_t step : {0, 3, 4}) {
    std::vector<double> wrong(10, 1.0);
    wrong[static_cast<std::size_t>(2 * step + 1)] = 5.0;
    EXPECT_THAT(
        message_of<ValueError>([&] {
          learner.etrace_grad(Arrays{zeros({5, kBatch, 2}), labels(wrong)}, windows, {.chunk_size = 2});
        }),
        HasSubstr("label 5 at step " + std::to_string(step) + ", entry 1"));
    EXPECT_EQ(learner.age(), 0);
  }
  // A step in real time looks, too.
  Classifier other;
  Learner real_time = compile(other, D_RTRL(), zeros({kBatch, 2}), {.batch_size = kBatch});
  real_time.bind_step(loss::cross_entropy);
  EXPECT_THAT(message_of<ValueError>([&] {
                real_time.step(zeros({kBatch, 2}), array({0, 3}, Dtype::I32));
              }),
              HasSubstr("label 3 in entry 1"));
  EXPECT_EQ(real_time.age(), 0);
  const LabelCheck one_by_one = multi.check(plain, kLabels);
  EXPECT_THAT(message_of<ValueError>([&] {
                look(one_by_one, labels({0, 0, 0, 3}));
              }),
              HasSubstr("label 3 at step 1"));
}

TEST(LabelCheck, MetricsInAStepFunction) {
  const StepFunction counts = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array y = model(s[0]);
    return {sum(square(y)), {metrics::accuracy().of(y, s[1])}};
  };
  const LabelCheck check = Compiled().check(counts, kLabels);
  EXPECT_THROW(look(check, labels({0, 3})), ValueError);
}

TEST(LabelCheck, OneStep) {
  const LabelCheck check = Compiled().check(plain, kLabels);
  const Array x = zeros({kBatch, 2});
  check.step("step", Arrays{x, array({1.0, 2.0}, Dtype::I32)});
  EXPECT_THAT(message_of<ValueError>([&] {
                check.step("step", Arrays{x, array({1.0, 3.0}, Dtype::I32)});
              }),
              AllOf(HasSubstr("step"), HasSubstr("label 3 in entry 1"), HasSubstr("3 classes")));
}

TEST(LabelCheck, OtherLossesHaveNone) {
  const StepFunction weights = [](StepCall& model, ArraySpan s) -> LossAndAux {
    return {loss::cross_entropy(model(s[0]), s[1]), {}};
  };
  EXPECT_TRUE(Compiled().check(weights, {Dtype::F32, {kBatch, kClasses}}).empty());
}

}  // namespace
}  // namespace etrace
