// Whole sequences: masks, chunks, reductions, extra results, errors, continuation.
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

class Drivers : public ::testing::Test {
 protected:
  const Model model = plain_and_traced();
  const Sequence data = draw_sequence(model, 6);
  const D_RTRL single{};
  const InWindows windows{D_RTRL()};

  Learner learner(const LearningRule& rule) const { return make_learner(model, rule); }
  Learner learner() const { return learner(single); }
  SequenceGradient sum_over(Learner& l, const Sequence& s, SequenceOptions o = {}) const {
    o.reduction = Reduction::Sum;
    o.mask = s.weights;
    return l.etrace_grad(s.all(), squared_error(o.chunk_size.value_or(1)), o);
  }
};

TEST_F(Drivers, L103_SumsWhatSingleCallsGive) {
  Learner whole = learner(), parts = learner();
  const SequenceGradient all = sum_over(whole, data);
  ParamValues total;
  for (std::int64_t t = 0; t < 6; ++t) {
    const SequenceGradient one = sum_over(parts, data.part(t, t + 1));
    EXPECT_DOUBLE_EQ(one.loss, item(all.losses, t).item<double>());
    total = t == 0 ? one.grads : sum_of(total, one.grads);
  }
  expect_gradients(all.grads, total, 1e-12);
  expect_same(traces_of(whole), traces_of(parts));
  EXPECT_EQ(whole.running_index(), 6);
  EXPECT_EQ(parts.running_index(), 6);
}

TEST_F(Drivers, L103_WindowsToo) {
  Learner whole = learner(windows), parts = learner(windows);
  const SequenceGradient all = sum_over(whole, data, {.chunk_size = 2});
  ParamValues total;
  for (std::int64_t t = 0; t < 6; t += 2) {
    const ParamValues one = sum_over(parts, data.part(t, t + 2), {.chunk_size = 2}).grads;
    total = t == 0 ? one : sum_of(total, one);
  }
  expect_gradients(all.grads, total, 1e-12);
  EXPECT_EQ(whole.running_index(), 3);
  EXPECT_EQ(whole.age(), 6);
}

TEST_F(Drivers, LossesAreThoseOfTheSequence) {
  Learner l = learner();
  const SequenceGradient found = sum_over(l, data);
  const Bptt reference = bptt(model, data);
  expect_same(Arrays{found.losses}, Arrays{reference.losses});
  EXPECT_NEAR(found.loss, sum(reference.losses).item<double>(), 1e-12);
  expect_same(states_of(l), reference.states);
}

// Weights ---------------------------------------------------------------------------------------------------
TEST_F(Drivers, L104_MeanDividesByTheWeights) {
  for (const Array& mask :
       {Array(), array({1, 0, 1, 1, 0, 1}, Dtype::F64), array({0.5, 0, 0.1, 0, 0.05, 0.1}, Dtype::F64)}) {
    Sequence weighted = data;
    weighted.weights = mask;
    Learner a = learner(), b = learner();
    const SequenceGradient total = sum_over(a, weighted),
                           mean_of = b.etrace_grad(weighted.all(), squared_error(), {.mask = mask});
    const double weight = mask.defined() ? sum(mask).item<double>() : 6.0;
    EXPECT_NEAR(mean_of.loss * weight, total.loss, 1e-12);
    ParamValues scaled = mean_of.grads;
    for (Array& g : scaled.values) g = g * weight;
    expect_gradients(scaled, total.grads, 1e-12);
    expect_gradients(
        total.grads,
        [&] {
          Learner again = learner();
          return online(again, weighted);
        }(),
        0.0);
  }
}

TEST_F(Drivers, L104_SmallWeightsUnderCompat) {
  // The reference divides by at least one.
  const Array mask = array({0.5, 0, 0, 0, 0, 0}, Dtype::F64);
  Learner ours = learner(), theirs = make_learner(model, single, Compat::Braintrace);
  const SequenceOptions o{.mask = mask};
  const ParamValues a = ours.etrace_grad(data.all(), squared_error(), o).grads,
                    b = theirs.etrace_grad(data.all(), squared_error(), o).grads;
  EXPECT_LE(relative_deviation(a.at("w"), 2.0 * b.at("w")), 1e-12);
}

TEST_F(Drivers, NoWeightNoGradient) {
  Sequence nothing = data;
  nothing.weights = zeros({6}, Dtype::F64);
  Learner l = learner();
  const SequenceGradient found = l.etrace_grad(nothing.all(), squared_error(), {.mask = nothing.weights});
  EXPECT_EQ(found.loss, 0.0);
  for (const Array& g : found.grads.values) EXPECT_EQ(norm(g), 0.0);
  EXPECT_GT(norm(traces_of(l)[0]), 0.0) << "the traces move all the same";
}

TEST_F(Drivers, L105_ZeroPrefixIsEvolving) {
  Sequence masked = data;
  masked.weights = array({0, 0, 0, 1, 1, 1}, Dtype::F64);
  Learner a = learner(), b = learner(), truncated = learner();
  const ParamValues found = sum_over(a, masked).grads;
  b.etrace_evolve(data.part(0, 3).args);
  expect_gradients(found, sum_over(b, data.part(3, 6)).grads, 1e-12);
  EXPECT_GT(largest_deviation(sum_over(truncated, data.part(3, 6)).grads, found), 1e-6);
}

// Chunks ----------------------------------------------------------------------------------------------------
TEST_F(Drivers, L106_ChunkSizes) {
  Learner a = learner(windows), b = learner(windows);
  EXPECT_EQ(largest_deviation(sum_over(a, data, {.chunk_size = 1}).grads, sum_over(b, data).grads), 0.0);
  Learner l = learner(), m = learner(windows);
  expect_error<ValueError>("needs a learner with vjp_method multi-step",
                           [&] { sum_over(l, data, {.chunk_size = 2}); });
  expect_error<ValueError>("chunk_size is 0; it must be at least 1",
                           [&] { sum_over(m, data, {.chunk_size = 0}); });
  // The last window may be shorter.
  Learner whole = learner(windows), parts = learner(windows);
  const ParamValues first = sum_over(parts, data.part(0, 4), {.chunk_size = 4}).grads;
  expect_gradients(sum_over(whole, data, {.chunk_size = 4}).grads,
                   sum_of(first, sum_over(parts, data.part(4, 6), {.chunk_size = 2}).grads), 1e-12);
}

TEST_F(Drivers, LossFunctionsOfOutputAndTarget) {
  for (const std::int64_t chunk : {1, 3}) {
    Learner a = learner(windows), b = learner(windows);
    const SequenceGradient found =
        a.etrace_grad(data.args[0], data.targets, loss::mse, {.chunk_size = chunk});
    ParamValues sums = sum_over(b, data, {.chunk_size = chunk}).grads;
    for (Array& g : sums.values) g = g / (6.0 * 2.0);  // mean over steps, and over the two results
    expect_gradients(found.grads, sums, 1e-12);
  }
}

// Continuation ----------------------------------------------------------------------------------------------
TEST(DriversContinue, L107_L117_TwoCallsAreOne) {
  const Model model = leaky_linear();
  const Sequence data = draw_sequence(model, 6);
  const D_RTRL single;
  const InWindows windows{D_RTRL()};
  for (const LearningRule* each :
       {static_cast<const LearningRule*>(&single), static_cast<const LearningRule*>(&windows)}) {
    const LearningRule& rule = *each;
    const std::int64_t window = method_of(rule) == VjpMethod::SingleStep ? 0 : 2;
    Learner whole = make_learner(model, rule), parts = make_learner(model, rule),
            reset = make_learner(model, rule);
    const ParamValues expected = online(whole, data, window), first = online(parts, data.part(0, 4), window);
    expect_gradients(sum_of(first, online(parts, data.part(4, 6), window)), expected, 1e-12);
    online(reset, data.part(0, 4), window);
    reset.reset_state();
    EXPECT_GT(largest_deviation(sum_of(first, online(reset, data.part(4, 6), window)), expected), 1e-6);
  }
}

TEST_F(Drivers, EvolvingGivesTheModelsResults) {
  Learner a = learner(), b = learner();
  const Arrays all = a.etrace_evolve(data.args);
  Arrays each;
  for (std::int64_t t = 0; t < 6; ++t) each.push_back(b(item(data.args[0], t)));
  expect_same(all, Arrays{stack(each)});
  expect_same(traces_of(a), traces_of(b));
  EXPECT_EQ(a.running_index(), 6);
  EXPECT_EQ(a.age(), 6);
}

TEST_F(Drivers, EvolvingOverPadding) {
  Learner padded = learner(), short_one = learner();
  padded.etrace_evolve(data.args, {.mask = array({1, 1, 1, 0, 0, 0}, Dtype::F64), .freeze = true});
  short_one.etrace_evolve(data.part(0, 3).args);
  expect_same(states_of(padded), states_of(short_one));
  expect_same(traces_of(padded), traces_of(short_one));
  EXPECT_EQ(padded.age(), 3);
}

// Step functions --------------------------------------------------------------------------------------------
TEST_F(Drivers, ExtraResults) {
  const StepFunction with_aux = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array out = model(s[0]);
    return {sum(square(out - s[1])), {out, sum(s[0])}};
  };
  for (const std::int64_t window : {1, 4}) {
    Learner l = make_learner(model, single, Compat::None, window), plain = learner();
    const SequenceGradient r = l.etrace_grad(data.all(), with_aux, {.reduction = Reduction::Sum});
    ASSERT_EQ(r.aux.size(), 2U);
    expect_same(Arrays{r.aux[0]}, plain.etrace_evolve(data.args));
    expect_same(Arrays{r.aux[1]}, Arrays{sum(data.args[0], {1})});
  }
}

TEST_F(Drivers, ExtraResultsOfWindows) {
  const StepFunction with_aux = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array out = model(MultiStepData{s[0]});
    return {sum(square(out - s[1]), {1}), {sum(out)}};
  };
  Learner l = learner(windows), plain = learner();
  const SequenceGradient r = l.etrace_grad(data.all(), with_aux, {.chunk_size = 3});
  ASSERT_EQ(r.aux.size(), 1U);
  const Array all = plain.etrace_evolve(data.args)[0];
  expect_same(r.aux, Arrays{sum(reshape(all, {2, -1}), {1})});
}

TEST_F(Drivers, StepFunctionsThatBreakTheRules) {
  Learner l = learner(), m = learner(windows);
  const auto with = [&](Learner& learner, const StepFunction& f, std::optional<std::int64_t> chunk = {}) {
    return [&learner, f, chunk, this] { learner.etrace_grad(data.all(), f, {.chunk_size = chunk}); };
  };
  expect_error<CompilationError>("did not call the learner",
                                 with(l, [](StepCall&, ArraySpan s) { return LossAndAux{sum(s[1])}; }));
  expect_error<CompilationError>("calls the learner a second time", with(l, [](StepCall& model, ArraySpan s) {
                                   return LossAndAux{sum(model(s[0])) + sum(model(s[0]))};
                                 }));
  expect_error<ValueError>("the loss has type f64[2], expected a floating scalar",
                           with(l, [](StepCall& model, ArraySpan s) { return LossAndAux{model(s[0])}; }));
  expect_error<ValueError>(
      "expected a floating vector of 3, one per step",
      with(
          m, [](StepCall& model, ArraySpan s) { return LossAndAux{sum(model(MultiStepData{s[0]}))}; }, 3));
  expect_error<NotSupportedError>("MultiStepData in a call of one step",
                                  with(l, [](StepCall& model, ArraySpan s) {
                                    return LossAndAux{sum(model(MultiStepData{expand_dims(s[0], {0})}))};
                                  }));
  expect_error<ValueError>("must reach the model as MultiStepData",
                           with(
                               m,
                               [](StepCall& model, ArraySpan s) {
                                 const Array out = model(squeeze(slice_axis(s[0], 0, 0, 1), {0}));
                                 return LossAndAux{broadcast_to(sum(out), {3})};
                               },
                               3));
  expect_error<ValueError>(
      "argument 0 of the model for one step has type f64[4], expected f64[3]; for other shapes compile "
      "with an example of them; the first axis of a sequence is time",
      with(l, [](StepCall& model, ArraySpan) { return LossAndAux{sum(model(zeros({4}, Dtype::F64)))}; }));
  expect_error<ValueError>("calls the learner with 2 arguments, but the model takes 1",
                           with(l, [](StepCall& model, ArraySpan s) {
                             return LossAndAux{sum(model({s[0], s[0]})[0])};
                           }));
}

TEST_F(Drivers, L108_NothingChangesIfAStepThrows) {
  Learner l = learner();
  online(l, data.part(0, 2));
  const Arrays states = states_of(l), traces = traces_of(l), params = l.params().values;
  int calls = 0;
  const StepFunction failing = [&](StepCall& model, ArraySpan s) -> LossAndAux {
    const Array out = model(s[0]);
    ++calls;
    throw std::runtime_error("no");
    return {sum(out)};
  };
  EXPECT_THROW(l.etrace_grad(data.all(), failing), std::runtime_error);
  EXPECT_GE(calls, 1);
  for (std::size_t i = 0; i < states.size(); ++i) EXPECT_EQ(states_of(l)[i].tensor(), states[i].tensor());
  for (std::size_t i = 0; i < traces.size(); ++i) EXPECT_EQ(traces_of(l)[i].tensor(), traces[i].tensor());
  for (std::size_t i = 0; i < params.size(); ++i)
    EXPECT_EQ(l.params().values[i].tensor(), params[i].tensor());
  EXPECT_EQ(l.running_index(), 2);
}

TEST_F(Drivers, BadSequences) {
  Learner l = learner();
  const auto grad = [&](const Arrays& s, const Array& mask = {}) {
    return [&l, s, mask] { l.etrace_grad(s, squared_error(), {.mask = mask}); };
  };
  expect_error<ValueError>("no sequence", grad({}));
  expect_error<ValueError>("sequence 1 is a scalar", grad({data.args[0], Array(1.0)}));
  expect_error<ValueError>("sequence 1 has 4 steps, but sequence 0 has 6",
                           grad({data.args[0], data.part(0, 4).targets}));
  expect_error<ValueError>("sequence 0 has no step",
                           grad({zeros({0, 3}, Dtype::F64), zeros({0, 2}, Dtype::F64)}));
  expect_error<ValueError>("the mask has shape [5], expected [6]", grad(data.all(), ones({5}, Dtype::F64)));
  expect_error<ValueError>("but the model takes", [&] {
    l.etrace_evolve(Arrays{zeros({6, 2}, Dtype::F64)});
  });
  expect_error<ValueError>("argument 0 has type", [&] { l(zeros({3})); });
  expect_error<ValueError>("2 arguments, but the model takes 1", [&] {
    l.update({zeros({3}, Dtype::F64), zeros({3}, Dtype::F64)});
  });
  expect_error<ValueError>("multi-step data without a step", [&] {
    l(MultiStepData{zeros({0, 3}, Dtype::F64)});
  });
  EXPECT_EQ(l.running_index(), 0);
}

// One learner, many forms of call: every program is made once per form and never mixed up.
TEST_F(Drivers, CallsOfManyFormsDoNotMix) {
  Learner mixed = learner();
  for (int round = 0; round < 2; ++round)
    for (const std::int64_t length : {2, 3, 6}) {
      Learner fresh = learner();
      mixed.reset_state();
      mixed.reset_model_state();
      const Sequence part = data.part(0, length);
      expect_gradients(sum_over(mixed, part).grads, sum_over(fresh, part).grads, 0.0);
      Learner other = learner();
      mixed.reset_state();
      mixed.reset_model_state();
      const StepFunction scaled = [](StepCall& model, ArraySpan s) -> LossAndAux {
        return {3.0 * sum(square(model(s[0]) - s[1]))};
      };
      const double three = mixed.etrace_grad(part.all(), scaled).loss,
                   one = other.etrace_grad(part.all(), squared_error()).loss;
      EXPECT_NEAR(three, 3.0 * one, 1e-12);
    }
}

}  // namespace
}  // namespace etrace
