// How the passes over traces run: chosen from patterns and sizes, reported, forced.
#include "etrace/trace_passes.h"

#include <gmock/gmock.h>

#include "etrace/models.h"
#include "learn/scenario.h"
#include "runtime/thread_pool.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr std::int64_t kBatch = 2, kLength = 9;

struct Made {
  ReadyModel ready;
  Learner learner;
};
Made made(const char* model, LearnerOptions o = {}, const LearningRule& rule = D_RTRL{}) {
  ReadyModel ready = make_model(model, {.batch = kBatch});
  o.batch_size = kBatch;
  o.backend = "interpreter";
  o.execution_window = o.execution_window.value_or(8);
  Learner l = compile(*ready.module, rule, ready.example, o);
  return {std::move(ready), std::move(l)};
}

const StepFunction kLoss = [](StepCall& step, ArraySpan s) {
  return LossAndAux{loss::mse(step(s[0]), s[1])};
};

Aval target_of(const Made& m) { return aval_of(m.learner.graph().module_info.model.program.jaxpr.outs[0]); }

std::vector<TracePass> passes(const Made& m, const char* program) {
  const Avals slices{m.ready.example[0].aval(), target_of(m)};
  return trace_passes(m.learner.plan(kLoss, slices).at(program).jaxpr);
}

Arrays gradients(Made m) {
  const Aval in = m.ready.example[0].aval(), out = target_of(m);
  const auto data = [&](std::uint64_t seed, const Aval& a) {
    Dims dims = a.shape.to_dims();
    dims.insert(dims.begin(), kLength);
    return convert(Random(seed).f64(Shape(dims)), a.dtype);
  };
  return m.learner.etrace_grad(data(1, in), data(2, out), loss::mse).grads.values;
}

void expect_near(const Arrays& a, const Arrays& b) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_LT(norm(a[i] - b[i]), 1e-5 * norm(a[i]) + 1e-12) << i;
    largest = std::max(largest, norm(a[i]));
  }
  EXPECT_GT(largest, 1e-6);
}

TEST(TracePasses, AreChosenByPatternAndSteps) {
  const Made gru = made("gru");
  for (const TracePass& p : passes(gru, "window")) {
    if (p.trace.ends_with("bias")) continue;
    EXPECT_EQ(p.form, TraceForm::Tiles) << p.trace;
    EXPECT_EQ(p.steps, 8);
    EXPECT_THAT(p.reason, HasSubstr("8 steps of a dense weight"));
  }
  for (const TracePass& p : passes(gru, "step")) EXPECT_EQ(p.form, TraceForm::Step) << p.trace;
  const auto first = [](const char* model, const LearningRule& rule = D_RTRL{}) {
    return passes(made(model, {}, rule), "window").at(0);
  };
  EXPECT_EQ(first("conv_snn").form, TraceForm::Patches);
  const TracePass stored = passes(made("rnn", {}, D_RTRL{{.trace_dtype = Dtype::BF16}}), "window").at(0);
  EXPECT_EQ(stored.form, TraceForm::Tiles);  // a trace in half the memory takes the same way
  EXPECT_EQ(passes(made("rnn", {}, D_RTRL{{.trace_dtype = Dtype::BF16}}), "step").at(0).form,
            TraceForm::Step);
}

// Traces in half the memory are passed in the same forms.
TEST(TracePasses, StoredTypesTakeTheSameForms) {
  for (const char* model : {"gru", "lstm", "lif_expon", "conv_snn"})
    for (const char* program : {"step", "window"}) {
      const std::vector<TracePass> full = passes(made(model), program);
      ASSERT_FALSE(full.empty());
      for (const Dtype type : {Dtype::F16, Dtype::BF16}) {
        const std::vector<TracePass> half = passes(made(model, {}, D_RTRL{{.trace_dtype = type}}), program);
        ASSERT_EQ(half.size(), full.size());
        for (std::size_t i = 0; i < full.size(); ++i) {
          EXPECT_EQ(half[i].trace, full[i].trace);
          EXPECT_EQ(half[i].form, full[i].form) << model << " " << program << " " << full[i].trace;
        }
      }
    }
}

// All passes have the name of their trace, so that a wish finds them.
TEST(TracePasses, CarryTheNamesOfTheirTraces) {
  const Made m = made("two_layer_gru");
  std::vector<std::string> names;
  for (const TracePass& p : passes(m, "window")) names.push_back(p.trace);
  for (const EligibilityTrace& e : m.learner.etraces())
    EXPECT_THAT(names, ::testing::Contains(e.name)) << "the program runs no pass of this name";
}

TEST(TracePasses, CanBeForcedWithoutAnotherResult) {
  for (const char* model : {"gru", "lif_expon", "conv_snn"}) {
    SCOPED_TRACE(model);
    const LearnerOptions rows{.trace_passes = {{.form = TraceForm::Rows}}};
    for (const TracePass& p : passes(made(model, rows), "window")) {
      EXPECT_EQ(p.form, TraceForm::Rows);
      EXPECT_THAT(p.reason, HasSubstr("as asked for"));
    }
    expect_near(gradients(made(model)), gradients(made(model, rows)));
  }
  const LearnerOptions one{
      .trace_passes = {{.form = TraceForm::Rows},
                       {.trace = "relation0/group0/weight", .form = TraceForm::Products, .threads = 1}}};
  for (const TracePass& p : passes(made("gru", one), "window"))
    EXPECT_EQ(p.form, p.trace == "relation0/group0/weight" ? TraceForm::Products : TraceForm::Rows);
}

// Threads divide the work and nothing else: the bits are the same.
TEST(TracePasses, ThreadsCanBeForced) {
  for (const char* model : {"gru", "lif_expon", "conv_snn"}) {
    const auto with = [&](int threads) { return LearnerOptions{.trace_passes = {{.threads = threads}}}; };
    int most = 0;
    for (const TracePass& p : passes(made(model, with(3)), "window")) most = std::max(most, p.threads);
    EXPECT_EQ(most, 3) << model;
    const Arrays a = gradients(made(model, with(1))), b = gradients(made(model, with(3)));
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(norm(a[i] - b[i]), 0.0) << model << " " << i;
  }
}

TEST(TracePasses, WhatDoesNotFitIsRefused) {
  const auto wish = [](TracePassWish w) { return LearnerOptions{.trace_passes = {std::move(w)}}; };
  expect_error<ValueError>(
      "there is no trace relation0/group0/wieght (did you mean relation0/group0/weight?); there are: ",
      [&] { made("gru", wish({.trace = "relation0/group0/wieght", .form = TraceForm::Rows})); });
  expect_error<ValueError>("the form patches does not fit relation0/group0/weight (f32",
                           [&] { passes(made("gru", wish({.form = TraceForm::Patches})), "window"); });
  expect_error<ValueError>("in passes of 1 step; there fit: step, rows",
                           [&] { passes(made("gru", wish({.form = TraceForm::Patches})), "step"); });
  expect_error<ValueError>("0 threads for *; it must be at least 1",
                           [&] { made("gru", wish({.threads = 0})); });
  // A form for single steps leaves windows as they are.
  for (const TracePass& p : passes(made("rnn", {.trace_passes = {{.form = TraceForm::Step}}}), "window"))
    EXPECT_NE(p.form, TraceForm::Step);
}

}  // namespace
}  // namespace etrace
