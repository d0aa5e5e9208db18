// Training on the way: parameters that are updated per step, per window or per sequence inside the program
// are those of a loop written by hand.
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

class Training : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLength = 7;
  const Array x = Random(3).f64({kLength, 2, 3}), y = Random(4).f64({kLength, 2, 4});

  struct Run {
    LeakyNet net;
    Learner learner;
    optim::Adam optimizer;
    explicit Run(const LearningRule& rule = D_RTRL(), std::int64_t window = 32)
        : learner(compile(net, rule, zeros({2, 3}, Dtype::F64),
                          {.batch_size = 2, .vjp_method = method_of(rule), .execution_window = window})),
          optimizer(net, 0.05, {}, {.clip_norm = 1.0}) {}
  };
  Array part(const Array& a, std::int64_t begin, std::int64_t end) const {
    return slice_axis(a, 0, begin, end);
  }

  // One gradient and one update for every `every` steps.
  std::vector<double> by_hand(Run& run, std::int64_t every, SequenceOptions o = {}) const {
    std::vector<double> losses;
    const Array mask = o.mask;
    for (std::int64_t t = 0; t < kLength; t += every) {
      const std::int64_t end = std::min(t + every, kLength);
      if (mask.defined()) o.mask = part(mask, t, end);
      const SequenceGradient g = run.learner.etrace_grad(part(x, t, end), part(y, t, end), loss::mse, o);
      run.optimizer.update(g.grads);
      for (const double l : values(g.losses)) losses.push_back(l);
    }
    return losses;
  }
  static void expect_same_run(const Run& a, const Run& b) {
    expect_same(Arrays{a.net.w.value(), a.net.v.value()}, Arrays{b.net.w.value(), b.net.v.value()});
    expect_same(traces_of(a.learner), traces_of(b.learner));
    EXPECT_EQ(a.optimizer.step(), b.optimizer.step());
  }
};

TEST_F(Training, PerStepWindowAndSequence) {
  struct Case {
    UpdateEvery update;
    std::int64_t window, every, updates;
  };
  for (const Case& c : {Case{UpdateEvery::Step, 0, 1, 7},
                        {UpdateEvery::Window, 3, 3, 3},
                        {UpdateEvery::Window, 0, 2, 4},
                        {UpdateEvery::Sequence, 0, 7, 1}}) {
    SCOPED_TRACE("every " + std::to_string(c.every));
    Run hand(D_RTRL(), 2), program(D_RTRL(), 2);
    const std::vector<double> expected = by_hand(hand, c.every);
    const SequenceTraining t =
        program.learner.etrace_train(x, y, loss::mse, program.optimizer, {{}, c.update, c.window});
    EXPECT_EQ(t.updates, c.updates);
    expect_same(Arrays{t.losses}, Arrays{vec(expected, Dtype::F64)});
    expect_same_run(program, hand);
    // And on: optimiser, traces and parameters continue.
    by_hand(hand, c.every);
    program.learner.etrace_train(x, y, loss::mse, program.optimizer, {{}, c.update, c.window});
    expect_same_run(program, hand);
  }
}

TEST_F(Training, UpdatesOfStepsDifferFromOneAtTheEnd) {
  Run steps, whole;
  steps.learner.etrace_train(x, y, loss::mse, steps.optimizer, {{}, UpdateEvery::Step});
  whole.learner.etrace_train(x, y, loss::mse, whole.optimizer);
  EXPECT_GT(relative_deviation(steps.net.w.value(), whole.net.w.value()), 1e-6);
}

TEST_F(Training, MasksAndSums) {
  for (const Reduction reduction : {Reduction::Mean, Reduction::Sum}) {
    Run hand, program;
    const SequenceOptions o{.mask = array({1, 0, 0.5, 1, 1, 0, 2}, Dtype::F64), .reduction = reduction};
    by_hand(hand, 2, o);
    program.learner.etrace_train(x, y, loss::mse, program.optimizer, {o, UpdateEvery::Window, 2});
    expect_same_run(program, hand);
  }
}

TEST_F(Training, MultiStepLearners) {
  Run hand{InWindows(D_RTRL())}, program{InWindows(D_RTRL())};
  const Array x6 = part(x, 0, 6), y6 = part(y, 0, 6);
  for (std::int64_t t = 0; t < 6; t += 3)
    hand.optimizer.update(
        hand.learner.etrace_grad(part(x, t, t + 3), part(y, t, t + 3), loss::mse, {.chunk_size = 3}).grads);
  program.learner.etrace_train(x6, y6, loss::mse, program.optimizer,
                               {{.chunk_size = 3}, UpdateEvery::Window});
  expect_same_run(program, hand);
  expect_error<ValueError>("an update every 2 steps, but the step function takes windows of 3", [&] {
    program.learner.etrace_train(x6, y6, loss::mse, program.optimizer,
                                 {{.chunk_size = 3}, UpdateEvery::Window, 2});
  });
}

TEST_F(Training, Learns) {
  Run run;
  double first = 0.0, last = 0.0;
  for (int epoch = 0; epoch < 60; ++epoch) {
    run.learner.reset_state();
    run.learner.reset_model_state();
    last = run.learner.etrace_train(x, y, loss::mse, run.optimizer, {{}, UpdateEvery::Step}).loss;
    if (epoch == 0) first = last;
  }
  EXPECT_LT(last, 0.8 * first);
}

TEST_F(Training, NothingChangesIfTheLossIsNotFinite) {
  Run run;
  run.learner.etrace_train(x, y, loss::mse, run.optimizer);
  const Tensor w = run.net.w.value().tensor(), v = run.net.v.value().tensor();
  Array bad = y * (1.0 / 0.0);
  expect_error<ValueError>("nothing was changed",
                           [&] { run.learner.etrace_train(x, bad, loss::mse, run.optimizer); });
  EXPECT_EQ(run.net.w.value().tensor(), w);
  EXPECT_EQ(run.net.v.value().tensor(), v);
  EXPECT_EQ(run.optimizer.step(), 1);
}

TEST_F(Training, OptimisersOfNoModelOrAnother) {
  Run run;
  optim::Adam unbound(0.1);
  expect_error<ValueError>("bound to no model", [&] { run.learner.etrace_train(x, y, loss::mse, unbound); });
  struct Other : Module {
    ParamState& u = param("u", zeros({2}));
  } other;
  optim::Adam foreign(other, 0.1);
  expect_error<ValueError>("bound to another model",
                           [&] { run.learner.etrace_train(x, y, loss::mse, foreign); });
}

}  // namespace
}  // namespace etrace
