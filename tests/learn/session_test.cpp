// One truth about parameters, states and the optimiser: whoever reads gets the newest value, whoever writes
// is seen by the next call; and the same few programs for any length.
#include "etrace/backend.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// h = w·x: the loss against zero is w².
struct OneWeight : Module {
  HiddenState& h = hidden("h", {1}, Dtype::F64);
  ParamState& w = param("w", ones({1, 1}, Dtype::F64));
  Array update(const Array& x) override {
    h.set(0.0 * h.value() + matmul(x, w.value()));
    return h.value();
  }
};
const Array kOne = ones({1}, Dtype::F64), kZero = zeros({1}, Dtype::F64);

struct Leaky : Module {
  HiddenState& h = hidden("h", {1}, Dtype::F64);
  ParamState& w = param("w", ones({1, 1}, Dtype::F64));
  Array update(const Array& x) override {
    h.set(0.5 * h.value() + matmul(x, w.value()));
    return h.value();
  }
};

TEST(Session, ResultsOfStepsAreCurrentAfterSync) {
  for (const bool sync : {false, true}) {
    Leaky net;
    Learner learner = compile(net, D_RTRL(), kOne);
    learner.bind_step(loss::mse);
    double h = 0.0, e = 0.0;
    for (int t = 0; t < 4; ++t) {
      h = 0.5 * h + 1.0;
      e = 0.5 * e + 1.0;
      const Learner::StepResult& r = learner.step(kOne, kZero);
      EXPECT_DOUBLE_EQ(r.results[0].item<double>(), h);
      EXPECT_DOUBLE_EQ(r.grads.values[0].item<double>(), 2 * h * e);
      EXPECT_DOUBLE_EQ(r.loss, h * h);
      EXPECT_DOUBLE_EQ(net.h.value().item<double>(), h) << "the model has the newest value";
      if (sync) learner.sync();
    }
  }
}

TEST(Session, StepsSeeParametersThatOthersChange) {
  std::vector<std::vector<double>> losses(3);
  for (std::size_t how = 0; how < 3; ++how) {
    OneWeight net;
    Learner learner = compile(net, D_RTRL(), kOne);
    optim::SGD sgd(net, 0.1);
    learner.bind_step(loss::mse, how == 0 ? &sgd : nullptr);
    for (int t = 0; t < 5; ++t) {
      const Learner::StepResult& r = learner.step(kOne, kZero);
      losses[how].push_back(r.loss);
      if (how > 0) sgd.update(r.grads);
      if (how == 2) learner.sync();
    }
    EXPECT_NEAR(net.w.value().item<double>(), std::pow(0.8, 5), 1e-15);
    EXPECT_EQ(sgd.step(), 5);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_LT(losses[0][4], 0.2);
}

TEST(Session, WhatIsSetInTheModelCountsFromTheNextStepOn) {
  Leaky net;
  Learner learner = compile(net, D_RTRL(), kOne);
  learner.step(kOne);
  learner.step(kOne);
  net.h.set(10.0 * kOne);
  net.w.set(full({1, 1}, 2.0, Dtype::F64));
  EXPECT_DOUBLE_EQ(learner.step(kOne).results[0].item<double>(), 7.0);
  init_all_states(net);
  EXPECT_DOUBLE_EQ(learner.step(kOne).results[0].item<double>(), 2.0);
  EXPECT_DOUBLE_EQ(learner.state("h").item<double>(), 2.0);
}

TEST(Session, TwoLearnersShareTheModel) {
  Leaky net;
  Learner a = compile(net, D_RTRL(), kOne), b = compile(net, *factorised(0.9), kOne);
  optim::SGD sgd(net, 0.1);
  a.bind_step(loss::mse, &sgd);
  b.bind_step(loss::mse, &sgd);
  Leaky alone;
  Learner c = compile(alone, D_RTRL(), kOne);
  double h = 0.0;
  for (int t = 0; t < 6; ++t) {
    Learner& now = t % 2 == 0 ? a : b;
    const double w = net.w.value().item<double>();
    h = 0.5 * h + w;
    EXPECT_DOUBLE_EQ(now.step(kOne, kZero).results[0].item<double>(), h) << t;
    EXPECT_DOUBLE_EQ(net.h.value().item<double>(), h);
    EXPECT_NE(net.w.value().item<double>(), w);
    EXPECT_EQ(sgd.step(), t + 1);
  }
}

TEST(Session, ValuesOutliveTheLearnerAndTheOptimiser) {
  Leaky net;
  double w = 0.0;
  {
    std::optional<Learner> learner = compile(net, D_RTRL(), kOne);
    {
      optim::Adam adam(net, 0.1);
      learner->bind_step(loss::mse, &adam);
      learner->step(kOne, kZero);
      learner->step(kOne, kZero);
      w = learner->params().values[0].item<double>();
    }
    Learner moved = std::move(*learner);
    learner.reset();
    EXPECT_EQ(moved.params().values[0].item<double>(), w);
    EXPECT_NE(w, 1.0);
  }
  EXPECT_EQ(net.w.value().item<double>(), w);
  EXPECT_GT(net.h.value().item<double>(), 1.0);
}

TEST(Session, WhatWasReadStaysAsItWas) {
  Leaky net;
  Learner learner = compile(net, D_RTRL(), kOne);
  optim::SGD sgd(net, 0.1);
  learner.bind_step(loss::mse, &sgd);
  learner.step(kOne, kZero);
  const Array w = net.w.value(), h = learner.state("h"), trace = learner.etraces()[0].value;
  const double was[] = {w.item<double>(), h.item<double>(), trace.item<double>()};
  learner.step(kOne, kZero);
  const double is[] = {w.item<double>(), h.item<double>(), trace.item<double>()};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(was[i], is[i]) << i;
}

// Counts the programs that are compiled.
class Counting final : public Backend {
 public:
  std::string_view name() const override { return "test-counting"; }
  std::string_view doc() const override { return "the interpreter, for a test that counts programs"; }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    ++compiled;
    return find_backend("interpreter").compile(p);
  }
  mutable int compiled = 0;
};
const Counting kCounting;
const RegisterBackend kCountingRow(kCounting);

TEST(Session, AnyNumberOfLengthsIsTheSameFewPrograms) {
  LeakyNet net;
  Learner learner =
      compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .backend = "test-counting"});
  const auto gradient = [&](std::int64_t length) {
    learner.reset_state();
    learner.reset_model_state();
    const Array x = Random(1).f64({60, 2, 3}), y = Random(2).f64({60, 2, 4});
    return learner.etrace_grad(slice_axis(x, 0, 0, length), slice_axis(y, 0, 0, length), loss::mse);
  };
  kCounting.compiled = 0;
  for (std::int64_t length = 1; length <= 60; ++length) gradient(length);
  EXPECT_LE(kCounting.compiled, 10);
  const int before = kCounting.compiled;
  for (std::int64_t length = 60; length > 0; --length) gradient(length);
  EXPECT_EQ(kCounting.compiled, before) << "none was forgotten";
}

// Programs that do nothing, for counting: what they would carry on stays as it is.
class Idle final : public Backend {
 public:
  std::string_view name() const override { return "test-idle"; }
  std::string_view doc() const override { return "runs nothing, for a test that counts programs"; }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    struct Nothing final : Runnable {
      std::vector<std::size_t> answers;
      void run(const void* const*, void* const* results) const override {
        for (const std::size_t i : answers) *static_cast<bool*>(results[i]) = true;
      }
      std::size_t arena_bytes() const override { return 0; }
    };
    auto code = std::make_shared<Nothing>();
    for (std::size_t i = 0; i < p.results.size(); ++i)
      if (p.results[i].role == PortRole::Finite) code->answers.push_back(i);
    ++compiled;
    return code;
  }
  mutable int compiled = 0;
};
const Idle kIdle;
const RegisterBackend kIdleRow(kIdle);

TEST(Session, TenThousandSequencesOfFiveHundredLengths) {
  LeakyNet net;
  Learner learner =
      compile(net, D_RTRL(), zeros({3}, Dtype::F64), {.backend = "test-idle", .execution_window = 32});
  optim::SGD sgd(net, 0.1);
  const Tensor x = zeros({500, 3}, Dtype::F64).tensor(), y = zeros({500, 4}, Dtype::F64).tensor();
  kIdle.compiled = 0;
  for (std::int64_t k = 0; k < 10'000; ++k) {
    const std::int64_t length = 1 + k * 7 % 500;
    const Tensor some_x = Tensor::over({Dtype::F64, {length, 3}}, x.bytes()),
                 some_y = Tensor::over({Dtype::F64, {length, 4}}, y.bytes());
    learner.etrace_train(Array(some_x), Array(some_y), loss::mse, sgd);
  }
  // Ten window lengths, each with the update behind it where it is the only one, and the update alone.
  EXPECT_EQ(kIdle.compiled, 21);
}

// A key of two words is no batch of two: which axis counts samples is said, not guessed.
struct Noisy : Module {
  HiddenState& h = hidden("h", {3}, Dtype::F64);
  RandomState& key = random_key("key", 7);
  ParamState& w = param("w", random::normal(random::key(1), {3, 3}, Dtype::F64));
  Array update(const Array& x) override {
    const Array noise = random::normal(key.next(), {3}, Dtype::F64), old = h.value();
    h.set(0.9 * old + matmul(x, w.value()) + noise);
    return h.value();
  }
};

TEST(Session, AKeyThatSamplesShareGoesOnWhileOneOfThemDoes) {
  for (const std::int64_t batch : {2, 3}) {
    Noisy net, twin;
    const Array x = Random(1).f64({3, batch, 3}), y = Random(2).f64({3, batch, 3});
    Learner l = compile(net, D_RTRL(), zeros({batch, 3}, Dtype::F64), {.batch_size = batch});
    Learner other = compile(twin, D_RTRL(), zeros({batch, 3}, Dtype::F64), {.batch_size = batch});
    std::vector<double> mask(static_cast<std::size_t>(3 * batch), 1.0);
    mask[0] = 0.0;  // a sample of the first step
    for (std::int64_t b = 0; b < batch; ++b)
      mask[static_cast<std::size_t>(2 * batch + b)] = 0.0;  // the last step
    l.etrace_grad(x, y, loss::mse, {.mask = array(mask, {3, batch}, Dtype::F64), .freeze = true});
    other.etrace_grad(slice_axis(x, 0, 0, 2), slice_axis(y, 0, 0, 2), loss::mse);
    EXPECT_EQ(net.key.value().tensor(), twin.key.value().tensor()) << batch;
    EXPECT_NE(net.h.value().tensor(), twin.h.value().tensor()) << "one sample has a step less";
  }
}

}  // namespace
}  // namespace etrace
