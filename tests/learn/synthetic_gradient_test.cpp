// Fitting the estimate of DNI: one window by hand, what it leaves alone, and what it refuses.
#include "etrace/synthetic_gradient.h"

#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

StepFunction square_loss(bool windows) {
  return [windows](StepCall& model, ArraySpan s) -> LossAndAux {
    if (!windows) return {sum(square(model(s[0]) - s[1]))};
    const Array e = square(model(MultiStepData{s[0]}) - s[1]);
    return {sum(reshape(e, {e.shape()[0], -1}), {1})};
  };
}

Learner fitted_learner(const Model& m) { return make_learner(m, InWindows(DNI())); }

// ∂(Σ loss)/∂h_0 by reverse mode.
Array signal_to_the_start(const Model& m, const Sequence& data) {
  const ParamValues params = initial_params(m);
  return grad([&](ArraySpan at) {
    Array h = at[0], total = zeros_of({Dtype::F64, {}});
    for (std::int64_t t = 0; t < data.length(); ++t) {
      Arrays in;
      std::size_t p = 0;
      for (const InputRecord& r : m.inputs)
        in.push_back(r.role == Role::Arg     ? item(data.args[0], t)
                     : r.role == Role::Param ? params.values[p++]
                                             : h);
      const Arrays out = eval_jaxpr(m.program, in);
      for (std::size_t i = 0; i < m.outputs.size(); ++i) {
        if (m.outputs[i].role == Role::Out) total = total + sum(square(out[i] - item(data.targets, t)));
        if (m.outputs[i].role == Role::Hidden) h = out[i];
      }
    }
    return total;
  })(Arrays{initial_states(m)[0]})[0];
}

// States start at zero, so that the first pair moves the bias alone: b = 2η/n·target. The second pair, at the
// end, draws it back to zero.
TEST(SyntheticGradient, OneWindowByHand) {
  constexpr double kRate = 0.1;
  Model m = plain_and_traced();
  set_initial(m, "h", zeros({4}, Dtype::F64));
  const Sequence data = draw_sequence(m, 6);
  Learner learner = fitted_learner(m);
  const std::vector<double> errors = train_synthetic_gradient(learner, data.all(), square_loss(true),
                                                              {.chunk_size = 6, .learning_rate = kRate});
  ASSERT_EQ(errors.size(), 1U);
  const Array target = signal_to_the_start(m, data), first = 2.0 * kRate / 4.0 * target;
  EXPECT_GT(norm(target), 1e-3);
  const auto mean_square = [](const Array& a) { return mean(square(a)).item<double>(); };
  EXPECT_NEAR(errors[0], 0.5 * (mean_square(target) + mean_square(first)), 1e-12);
  EXPECT_LE(
      relative_deviation(learner.rule_param("synthesizer/group0/bias"), first * (1.0 - 2.0 * kRate / 4.0)),
      1e-12);
  Learner forward = fitted_learner(m);
  forward.etrace_evolve(data.args);
  const Array last = forward.state("h");
  const Array weight = -2.0 * kRate / 4.0 * reshape(last, {4, 1}) * reshape(first, {1, 4});
  EXPECT_LE(relative_deviation(learner.rule_param("synthesizer/group0/weight"), weight), 1e-12);
}

TEST(SyntheticGradient, TheErrorFallsAndTheModelStays) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 12);
  const optim::Adam adam(1e-2);
  const auto fitted = [&](Learner& learner, std::int64_t chunk) {
    const std::vector<double> errors =
        train_synthetic_gradient(learner, data.all(), square_loss(chunk > 1),
                                 {.chunk_size = chunk, .epochs = 200, .optimizer = &adam});
    EXPECT_EQ(errors.size(), 200U);
    EXPECT_LT(errors.back(), 0.8 * errors.front());
  };
  Learner steps = fitted_learner(m), learner = fitted_learner(m);
  const ParamValues before = learner.params();
  fitted(steps, 1);
  fitted(learner, 3);
  EXPECT_EQ(largest_deviation(learner.params(), before), 0.0);
  EXPECT_EQ(learner.state("h").tensor(), initial_states(m)[0].tensor());
  // The estimate reaches parameters without a trace.
  const ParamValues found = learner.etrace_grad(data.all(), square_loss(true), {.chunk_size = 3}).grads,
                    plain = make_learner(m, InWindows(D_RTRL()))
                                .etrace_grad(data.all(), square_loss(true), {.chunk_size = 3})
                                .grads;
  EXPECT_GT(largest_deviation(found, plain, {"win"}), 1e-3);
  EXPECT_EQ(largest_deviation(found, plain, {"w", "out"}), 0.0);
}

TEST(SyntheticGradient, AnotherLossOrWindowIsRefused) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 12);
  Learner learner = fitted_learner(m);
  train_synthetic_gradient(learner, data.all(), square_loss(true), {.chunk_size = 3});
  learner.etrace_grad(data.all(), square_loss(true),
                      {.chunk_size = 3});  // another function that does the same
  expect_error<ValueError>("was fitted for windows of 3 steps, and these have 4",
                           [&] { learner.etrace_grad(data.all(), square_loss(true), {.chunk_size = 4}); });
  expect_error<ValueError>("was fitted for windows of 3 steps, and these have 1",
                           [&] { learner.etrace_grad(data.all(), square_loss(false)); });
  const StepFunction doubled = [](StepCall& model, ArraySpan s) -> LossAndAux {
    return {2.0 * sum(square(model(MultiStepData{s[0]}) - s[1]), {1})};
  };
  expect_error<ValueError>("was fitted for another loss",
                           [&] { learner.etrace_grad(data.all(), doubled, {.chunk_size = 3}); });
  learner.set_rule_param("synthesizer/group0/bias", zeros({4}, Dtype::F64));  // by hand: nothing is known
  learner.etrace_grad(data.all(), doubled, {.chunk_size = 4});
}

TEST(SyntheticGradient, Errors) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 12);
  Learner learner = fitted_learner(m);
  expect_error<ValueError>("chunk_size 5 does not divide a sequence of 12 steps", [&] {
    train_synthetic_gradient(learner, data.all(), square_loss(true), {.chunk_size = 5});
  });
  expect_error<ValueError>("epochs is 0", [&] {
    train_synthetic_gradient(learner, data.all(), square_loss(false), {.epochs = 0});
  });
  Learner none = make_learner(m, InWindows(D_RTRL()));
  expect_error<ValueError>("has no estimate with parameters of its own",
                           [&] { train_synthetic_gradient(none, data.all(), square_loss(false)); });
}

}  // namespace
}  // namespace etrace
