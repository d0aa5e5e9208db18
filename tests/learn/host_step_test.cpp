// Steps called from the host: the numbers of the drivers, and no allocation after the first.
#include "etrace/models.h"
#include "etrace/nn.h"
#include "learn/scenario.h"
#include "support/allocations.h"

namespace etrace {
namespace {

using namespace testing;

class HostSteps : public ::testing::TestWithParam<bool> {
 protected:
  const Array xs = Random(1).f64({6, 2, 3}), ys = Random(2).f64({6, 2, 4});
  LeakyNet net;
  Learner learner = compile(net, GetParam() ? *factorised(0.9) : *D_RTRL().clone(), zeros({2, 3}, Dtype::F64),
                            {.batch_size = 2});
};

TEST_P(HostSteps, GiveWhatTheDriversGive) {
  LeakyNet twin;
  Learner other = compile(twin, learner.rule(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  learner.bind_step(loss::mse);
  for (std::int64_t t = 0; t < 6; ++t) {
    const Learner::StepResult& r = learner.step(item(xs, t), item(ys, t));
    const SequenceGradient expected =
        other.etrace_grad(slice_axis(xs, 0, t, t + 1), slice_axis(ys, 0, t, t + 1), loss::mse);
    EXPECT_NEAR(r.loss, expected.loss, 1e-15);
    expect_gradients(r.grads, expected.grads, 1e-14);
    expect_same(r.results, Arrays{twin.v.value()});
  }
  learner.step(item(xs, 0));
  other.update({item(xs, 0)});
  EXPECT_EQ(learner.running_index(), 7);
  expect_same(Arrays{net.v.value()}, Arrays{twin.v.value()});
  expect_same(traces_of(learner), traces_of(other));
}

TEST_P(HostSteps, WithAnOptimiserTheyTrain) {
  LeakyNet twin;
  Learner other = compile(twin, learner.rule(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  optim::Adam mine(net, 0.05), its(twin, 0.05);
  learner.bind_step(loss::mse, &mine);
  for (std::int64_t t = 0; t < 6; ++t) learner.step(item(xs, t), item(ys, t));
  EXPECT_EQ(mine.step(), 6) << "whoever asks gets the newest value";
  other.etrace_train(xs, ys, loss::mse, its, {{}, UpdateEvery::Step});
  EXPECT_EQ(mine.step(), 6);
  expect_same(Arrays{net.w.value()}, Arrays{twin.w.value()});
  mine.set_learning_rate(0.0);
  const Array before = net.w.value();
  learner.step(item(xs, 0), item(ys, 0));
  EXPECT_EQ(before.tensor(), net.w.value().tensor()) << "a changed rate counts from the next step on";
}

TEST_P(HostSteps, AllocateNothingAfterTheFirst) {
  optim::Adam optimizer(net, 0.05);
  learner.bind_step(loss::mse, &optimizer);
  Arrays x, y;
  for (std::int64_t t = 0; t < 6; ++t) {
    x.push_back(item(xs, t).tensor());
    y.push_back(item(ys, t).tensor());
  }
  learner.step(x[0], y[0]);
  learner.step(x[0]);
  const std::size_t before = allocations();
  for (std::size_t t = 1; t < 6; ++t) {
    learner.step(x[t], y[t]);
    learner.step(x[t]);
  }
  EXPECT_EQ(allocations() - before, 0U);
}

// Of built-in models: convolutions, delays and spikes have kernels of their own.
TEST(HostStepsOfModels, AllocateNothing) {
  for (const char* name : {"conv_rnn", "conv_snn", "lstm", "alif", "lru", "hodgkin_huxley"}) {
    const ReadyModel ready = make_model(name, {.sizes = {8, 6, 2}, .batch = 2});
    Learner learner =
        compile(*ready.module, D_RTRL(), ready.example, {.batch_size = 2, .backend = "interpreter"});
    learner.bind_step(loss::mse);
    const Array x = ready.example[0].tensor(), y = learner(x).tensor();
    learner.step(x, y);
    learner.step(x, y);
    const std::size_t before = allocations();
    for (int t = 0; t < 3; ++t) learner.step(x, y);
    EXPECT_EQ(allocations() - before, 0U) << name;
  }
}

TEST_P(HostSteps, Mistakes) {
  expect_error<ValueError>("call bind_step(loss) first", [&] { learner.step(item(xs, 0), item(ys, 0)); });
  learner.bind_step(loss::mse);
  expect_error<ValueError>("an argument has type f64[3], expected f64[2,3]",
                           [&] { learner.step(zeros({3}, Dtype::F64), item(ys, 0)); });
  LeakyNet stranger;
  optim::Adam of_stranger(stranger, 0.1);
  expect_error<ValueError>("bound to another model", [&] { learner.bind_step(loss::mse, &of_stranger); });
}

INSTANTIATE_TEST_SUITE_P(Rules, HostSteps, ::testing::Bool());

// What use has shown: learners and optimisers that outlive or mistake each other
// --------------------------------
TEST(KeepsAlive, WhatTheLearnerNeeds) {
  auto net = std::make_unique<LeakyNet>();
  Learner learner = compile(*net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  net.reset();
  const SequenceGradient r =
      learner.etrace_grad(Random(1).f64({4, 2, 3}), Random(2).f64({4, 2, 4}), loss::mse);
  EXPECT_GT(norm(r.grads.values[0]), 1e-8);
  learner.reset_model_state();
  EXPECT_EQ(norm(learner.state("v")), 0.0);
}

TEST(Rates, ANewOptimiserWithAnotherRateIsNotTheOld) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  const Array x = Random(1).f64({4, 2, 3}), y = Random(2).f64({4, 2, 4});
  const Array start = net.w.value();
  std::vector<double> moved;
  for (const double rate : {1e-1, 1e-6}) {
    net.w.set(start);
    learner.reset_state();
    learner.reset_model_state();
    optim::SGD optimizer(net, rate);
    learner.etrace_train(x, y, loss::mse, optimizer);
    moved.push_back(norm(net.w.value() - start));
  }
  EXPECT_NEAR(moved[0] / moved[1], 1e5, 1e5 * 0.2);
}

TEST(Rates, SchedulesAreReadAgain) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  double rate = 0.1;
  optim::SGD optimizer(net, optim::Schedule([&](const Array& step) { return full({}, rate, step.dtype()); }));
  const Array x = Random(1).f64({4, 2, 3}), y = Random(2).f64({4, 2, 4});
  learner.etrace_train(x, y, loss::mse, optimizer);
  rate = 0.0;
  const Array before = net.w.value();
  learner.etrace_train(x, y, loss::mse, optimizer);
  EXPECT_EQ(before.tensor(), net.w.value().tensor());
}

TEST(Rates, AnOptimiserOfAnotherModelIsRefused) {
  LeakyNet net, other;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  optim::SGD optimizer(other, 0.1);
  expect_error<ValueError>("bound to another model: w is not among its parameters", [&] {
    learner.etrace_train(Random(1).f64({4, 2, 3}), Random(2).f64({4, 2, 4}), loss::mse, optimizer);
  });
}

TEST(Rates, GroupsOfParameters) {
  struct Net : Module {
    nn::Linear& a = child<nn::Linear>("a", 3, 4);
    nn::Linear& b = child<nn::Linear>("b", 4, 2);
    HiddenState& h = hidden("h", {4});
    Array update(const Array& x) override {
      h.set(tanh(0.5 * h.value() + a(x)));
      return b(h.value());
    }
  };
  Net net;
  Learner learner = compile(net, D_RTRL(), zeros({1, 3}), {.batch_size = 1});
  optim::SGD optimizer(net, 0.1, {},
                       {.groups = {{.leaf = "a", .learning_rate = 0.0}, {.leaf = "b", .clip_norm = 1e-3}}});
  EXPECT_THAT(optimizer.hyperparameter_names(optimizer.leaves()),
              ::testing::ElementsAre("lr", "lr:a", "clip_norm:b"));
  const ParamValues before = learner.params();
  learner.etrace_train(convert(Random(1).f64({4, 1, 3}), Dtype::F32),
                       convert(Random(2).f64({4, 1, 2}), Dtype::F32), loss::mse, optimizer);
  const ParamValues after = learner.params();
  double b_moved = 0.0;
  for (std::size_t i = 0; i < after.leaves.size(); ++i) {
    const double moved = norm(after.values[i] - before.values[i]);
    if (to_string(after.leaves[i]).starts_with("a"))
      EXPECT_EQ(moved, 0.0) << to_string(after.leaves[i]);
    else
      b_moved = std::hypot(b_moved, moved);
  }
  EXPECT_NEAR(b_moved, 1e-4, 1e-6) << "rate times the clipped norm";
  optimizer.set_learning_rate("a", 0.1);
  learner.etrace_train(convert(Random(1).f64({4, 1, 3}), Dtype::F32),
                       convert(Random(2).f64({4, 1, 2}), Dtype::F32), loss::mse, optimizer);
  EXPECT_GT(
      norm(learner.params().values[0] - after.values[0]) + norm(learner.params().values[1] - after.values[1]),
      0.0);
  expect_error<ValueError>("no parameter group 'c'", [&] { optimizer.set_learning_rate("c", 0.1); });
}

// Numbers that are none
// ---------------------------------------------------------------------------------------
TEST(NotFinite, InputsAreRefusedAndNothingChanges) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  const Array y = Random(2).f64({4, 2, 4});
  const Array bad = concatenate(Arrays{Random(1).f64({3, 2, 3}), full({1, 2, 3}, std::nan(""), Dtype::F64)});
  expect_error<ValueError>("sequence 0 holds nan at step 3; nothing was changed",
                           [&] { learner.etrace_grad(bad, y, loss::mse); });
  EXPECT_EQ(learner.age(), 0);
  const SequenceOptions padded{.mask = array({1, 1, 1, 0}, Dtype::F64), .freeze = true};
  const SequenceGradient found = learner.etrace_grad(bad, y, loss::mse, padded);
  EXPECT_TRUE(std::isfinite(found.loss)) << "padding may hold anything";
  for (const Array& g : found.grads.values)
    for (const double v : g.tensor().to_doubles()) EXPECT_TRUE(std::isfinite(v));
  expect_error<ValueError>("weights must be finite and not negative", [&] {
    learner.etrace_grad(Random(1).f64({4, 2, 3}), y, loss::mse, {.mask = array({1, -1, 1, 1}, Dtype::F64)});
  });
}

// After prepare() a step allocates nothing, not even the first, and looking whether it is finite does not
// either.
TEST(NotFinite, StepsAllocateNothingAfterPrepare) {
  struct Logarithm : Module {
    HiddenState& h = hidden("h", {3}, Dtype::F64);
    ParamState& w = param("w", ones({3, 3}, Dtype::F64));
    Array update(const Array& x) override {
      const Array old = h.value();
      h.set(0.5 * old + log(x) + matmul(x, w.value()));
      return h.value();
    }
  } net;
  Learner l = compile(net, D_RTRL(), zeros({3}, Dtype::F64),
                      {.backend = "interpreter", .not_finite = NotFinite::Skip});
  optim::Adam adam(net, 0.01);
  l.bind_step(loss::mse, &adam);
  std::vector<double> buffer{1.0, 0.5, 0.25};
  const Array x = Tensor::over({Dtype::F64, {3}}, buffer.data()), y = Array(ones({3}, Dtype::F64).tensor());
  l.prepare(y.aval());
  EXPECT_EQ(l.age(), 0) << "nothing has run";
  const std::size_t before = allocations();
  l.step(x);
  l.step(x, y);
  buffer[1] = -1.0;  // the next step reads the buffer as it is then
  l.step(x, y);
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(l.skipped(), 1);
  EXPECT_EQ(l.age(), 2);
}

TEST(NotFinite, OptimisersRefuseGradients) {
  LeakyNet net;
  optim::SGD optimizer(net, 0.1);
  const Array before = net.w.value();
  ParamValues grads = param_values(net);
  grads.values[0] = full({3, 4}, std::nan(""), Dtype::F64).tensor();
  grads.values[0] = Array(Tensor::copy_of(grads.values[0].aval(), grads.values[0].tensor().bytes()));
  expect_error<ValueError>("the gradient of w holds nan; nothing was changed",
                           [&] { optimizer.update(grads); });
  EXPECT_EQ(before.tensor(), net.w.value().tensor());
}

// Weights per sample
// -------------------------------------------------------------------------------------------
TEST(PerSample, MasksWeighEverySampleAlone) {
  LeakyNet net;
  Learner both = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  const Array x = Random(1).f64({4, 2, 3}), y = Random(2).f64({4, 2, 4});
  const Array mask = array({1, 0.5, 0, 1, 1, 0, 0, 2}, {4, 2}, Dtype::F64);
  for (const bool freeze : {false, true}) {
    both.reset_state();
    both.reset_model_state();
    const SequenceGradient found =
        both.etrace_grad(x, y, loss::mse, {.mask = mask, .freeze = freeze, .reduction = Reduction::Sum});
    Array total;
    for (std::int64_t b = 0; b < 2; ++b) {
      LeakyNet one;
      one.w.set(net.w.value());
      Learner alone = compile(one, D_RTRL(), zeros({1, 3}, Dtype::F64), {.batch_size = 1});
      const auto lane = [&](const Array& a) { return slice_axis(a, 1, b, b + 1); };
      const Array g =
          alone
              .etrace_grad(lane(x), lane(y), loss::mse,
                           {.mask = squeeze(lane(mask), {1}), .freeze = freeze, .reduction = Reduction::Sum})
              .grads.values[0];
      total = b == 0 ? g : total + g;
    }
    EXPECT_LE(relative_deviation(found.grads.values[0], total), 1e-12) << freeze;
    EXPECT_EQ(found.losses.shape(), (Shape{4, 2}));
  }
  expect_error<ValueError>("the mask has weights for 3 samples", [&] {
    both.etrace_grad(x, y, loss::mse, {.mask = ones({4, 3}, Dtype::F64)});
  });
}

// A bias that all samples share, with as many entries as there are samples: what stands in the padding of a
// sample is nobody else's, but this is.
struct SharedDrive : Module {
  HiddenState& h = hidden("h", {2}, Dtype::F64);
  ParamState& w = param("w", Random(3).f64({3, 2}));
  Arrays update_all(ArraySpan in) override {
    const Array x = in[0], drive = in[1];
    h.set(0.5 * h.value() + matmul(x, w.value()) + drive);
    return {h.value()};
  }
};

TEST(PerSample, PaddingOfASampleIsKnownByItsWayNotByItsSize) {
  SharedDrive net;
  Learner learner =
      compile(net, D_RTRL(), Arrays{zeros({2, 3}, Dtype::F64), zeros({2}, Dtype::F64)}, {.batch_size = 2});
  const SequenceOptions masked{
      .mask = array({1, 1, 1, 0}, {2, 2}, Dtype::F64), .freeze = true, .reduction = Reduction::Sum};
  const Array nan = full({1}, std::nan(""), Dtype::F64);
  const auto with_nan = [&](const Array& a, std::int64_t at) {
    const Array flat = reshape(a, {-1});
    const std::int64_t n = flat.shape()[0];
    const Array with = concatenate(Arrays{slice_axis(flat, 0, 0, at), nan, slice_axis(flat, 0, at + 1, n)});
    return reshape(with, Dims(a.shape().begin(), a.shape().end()));
  };
  const StepFunction f = [](StepCall& model, ArraySpan s) -> LossAndAux {
    const std::array<etrace::StepInput, 2> args{s[0], s[1]};
    const Array h = model(args)[0];
    return {sum(square(h), {1})};
  };
  const Array x = Random(1).f64({2, 2, 3}), drive = Random(2).f64({2, 2});
  const auto losses = [&](const Array& x) {
    learner.reset_state();
    learner.reset_model_state();
    return learner.etrace_grad(Arrays{x, drive}, f, masked).losses;
  };
  const Array found = losses(with_nan(x, 9)), plain = losses(x);  // sample 1 of step 1, which stands still
  EXPECT_EQ(slice_axis(found, 1, 0, 1).tensor(), slice_axis(plain, 1, 0, 1).tensor());
  const Array wrong = with_nan(drive, 3);
  for (const bool evolve : {false, true})
    expect_error<ValueError>("nothing shows that the sequence has an entry per sample", [&] {
      if (evolve)
        learner.etrace_evolve(Arrays{x, wrong}, {.mask = masked.mask, .freeze = true});
      else
        learner.etrace_grad(Arrays{x, wrong}, f, masked);
    });
  expect_error<ValueError>("sequence 0 holds nan at step 1", [&] {
    learner.etrace_grad(Arrays{with_nan(x, 6), drive}, f, masked);
  });
}

TEST(GradientSums, AddAndAverage) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  GradientSum total;
  expect_error<ValueError>("nothing was added yet", [&] { total.mean(); });
  const ParamValues a =
      learner.etrace_grad(Random(1).f64({4, 2, 3}), Random(2).f64({4, 2, 4}), loss::mse).grads;
  total.add(a);
  total.add(a, 3.0);
  EXPECT_LE(relative_deviation(total.value().values[0], 4.0 * a.values[0]), 1e-15);
  EXPECT_LE(relative_deviation(total.mean().values[0], a.values[0]), 1e-15);

  // One that names fewer leaves, before and after one that names all.
  const ParamLeafId p{{"p"}}, q{{"q"}};
  const ParamValues both{{p, q}, {full({2}, 1.0, Dtype::F64), full({3}, 2.0, Dtype::F64)}},
      last{{q}, {full({3}, 5.0, Dtype::F64)}};
  GradientSum grown;
  for (const ParamValues* part : {&last, &both, &last}) grown.add(*part);
  EXPECT_EQ(grown.value().leaves, both.leaves);
  EXPECT_EQ(grown.value().at("p").tensor(), full({2}, 1.0, Dtype::F64).tensor());
  EXPECT_EQ(grown.value().at("q").tensor(), full({3}, 12.0, Dtype::F64).tensor());
  expect_error<ValueError>("other parameters than before", [&] {
    grown.add({{p, ParamLeafId{{"stranger"}}}, both.values});
  });
}

// A tail that subtracts the mean: the all-ones derivative is zero, the gradient of the step is not
// --------------
TEST(MixingTails, GetTheGradientOfTheirStep) {
  const auto model = [] {
    return step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
      const Array y = matmul(in["x"], in["w"]);
      in.set("h", 0.9 * in["h"] + tanh(y - mean(y)));
      return in["h"];
    });
  };
  const Model m = model();
  const Sequence one = draw_sequence(m, 1), data = draw_sequence(m, 5);
  expect_gradients(gradients_of(m, D_RTRL(), one), bptt(m, one).grads, 1e-12);
  const ParamValues found = gradients_of(m, D_RTRL(), data);
  EXPECT_GT(cosine(found.values[0], bptt(m, data).grads.values[0]), 0.3);
  Learner reference = make_learner(m, D_RTRL(), Compat::Braintrace);
  EXPECT_GT(largest_deviation(online(reference, data), found), 1e-3);
}

}  // namespace
}  // namespace etrace
