// Numbers that are not finite do not get in: a step, window or update that would carry one on changes
// nothing.
#include <fmt/format.h>

#include "etrace/nn.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct GruNet : Module {
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 3, 8);
  nn::Linear& out = child<nn::Linear>("out", 8, 2);
  Array update(const Array& x) override { return out(rnn(x)); }
};

// Everything that a learner carries on, bit for bit.
std::vector<Tensor> all_of(const Learner& l, const optim::Optimizer* optimizer) {
  std::vector<Tensor> out;
  for (const auto& [name, value] : l.checkpoint(optimizer).tensors)
    out.push_back(Tensor::copy_of(value.aval(), value.bytes()));
  return out;
}

TEST(NotFinite, ADataPointThatIsNoNumberIsRefusedByAStep) {
  GruNet net;
  Learner l = compile(net, D_RTRL(), zeros({3}));
  optim::Adam adam(net, 1e-3);
  l.bind_step(loss::mse, &adam);
  const Array x = ones({3}), y = ones({2}), bad = Tensor::of(std::vector<float>{1, NAN, 1}, {3});
  l.step(x, y);
  const auto before = all_of(l, &adam);
  expect_error<ValueError>("argument 0 holds nan; nothing was changed", [&] { l.step(bad, y); });
  expect_error<ValueError>("argument 0 holds nan; nothing was changed", [&] { l.step(bad); });
  expect_error<ValueError>("the target holds nan", [&] {
    l.step(x, Tensor::of(std::vector<float>{NAN, 1}, {2}));
  });
  expect_error<ValueError>("argument 0 holds nan", [&] { l.update({bad}); });
  EXPECT_EQ(all_of(l, &adam), before);
  EXPECT_TRUE(std::isfinite(l.step(x, y).loss)) << "and it goes on";
}

// h' = h/2 + x·w. What is asked for decides what is no number: the state, a derivative by it, or the loss's.
struct Fragile : Module {
  enum What { State, Jacobian, Loss };
  What what;
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  ParamState& w = param("w", 0.5 * random::normal(random::key(1), {3, 4}, Dtype::F64));
  ParamState& r = param("r", ones({4}, Dtype::F64));
  explicit Fragile(What fails) : what(fails) {}
  Array update(const Array& x) override {
    const Array y = matmul(x, w.value()), old = h.value();
    if (what == State) h.set(0.5 * old + log(y - y + mean(x) + 2.0));  // of a negative number: nan
    // Where x is zero, √ has an infinite slope at the finite value 0.
    if (what == Jacobian) h.set(0.5 * old + y + sqrt(abs((old + 9.0) * sum(x))));
    if (what == Loss) h.set(0.5 * old + y);
    return h.value() * r.value();
  }
};
Array root_loss(const Array& y, const Array& target) {
  return sqrt(sum(square(y - target)));
}  // 0·∞ at y = target

// (model, loss, good input, bad input, bad target)
struct Failing {
  const char* name;
  Fragile::What what;
};

class Failures : public ::testing::TestWithParam<std::tuple<Failing, const char*, std::string>> {
 protected:
  Fragile net{std::get<0>(GetParam()).what};
  optim::Adam adam{net, 0.01};
  Array good = array({1.0, 0.5, -0.25}, Dtype::F64), target = ones({4}, Dtype::F64);
  bool of_loss() const { return net.what == Fragile::Loss; }
  Array bad() const {
    return net.what == Fragile::State      ? full({3}, -9.0, Dtype::F64)
           : net.what == Fragile::Jacobian ? zeros({3}, Dtype::F64)
                                           : array({1.0, 0.25, 0.5}, Dtype::F64);
  }
  Loss loss() const { return of_loss() ? Loss(root_loss) : Loss(loss::mse); }
  // For the loss's derivative the target is what the model will say.
  Array bad_target(Learner& l) {
    if (!of_loss()) return target;
    const Array y = matmul(bad(), net.w.value()) + 0.5 * l.state("h");
    return y * net.r.value();
  }
  Learner make(NotFinite policy, std::optional<std::int64_t> window = {}) {
    return compile(net, *make_rule(std::get<1>(GetParam())), zeros({3}, Dtype::F64),
                   {.backend = std::get<2>(GetParam()), .execution_window = window, .not_finite = policy});
  }
};

TEST_P(Failures, AStepWithAnOptimiserChangesNothing) {
  Learner l = make(NotFinite::Error);
  l.bind_step(loss(), &adam);
  l.step(good, target);
  l.step(good, target);
  const auto before = all_of(l, &adam);
  const Array t = bad_target(l);
  expect_error<ValueError>("would not be finite", [&] { l.step(bad(), t); });
  EXPECT_EQ(all_of(l, &adam), before);
  EXPECT_EQ(l.skipped(), 1);
  const double loss = l.step(good, target).loss;
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_NE(all_of(l, &adam), before);
}

TEST_P(Failures, SkippingGoesOnAndCounts) {
  Learner l = make(NotFinite::Skip);
  l.bind_step(loss(), &adam);
  l.step(good, target);
  const auto before = all_of(l, &adam);
  const Array t = bad_target(l);
  l.step(bad(), t);
  EXPECT_EQ(all_of(l, &adam), before);
  EXPECT_EQ(l.skipped(), 1);
  EXPECT_EQ(adam.step(), 1);
  l.step(good, target);
  EXPECT_EQ(adam.step(), 2);
}

// The window with the bad step changes nothing; what came before it stands.
TEST_P(Failures, OneWindowOfASequence) {
  if (of_loss()) return;  // its target is known only when the sequence runs
  Learner l = make(NotFinite::Skip, 2), other = make(NotFinite::Error, 2);
  Arrays xs(8, good);
  xs[3] = bad();
  for (Array& x : xs) x = expand_dims(x, {0});
  const Array all = concatenate(xs), ys = ones({8, 4}, Dtype::F64);
  const SequenceTraining r = l.etrace_train(all, ys, loss(), adam, {{}, UpdateEvery::Window, 2});
  EXPECT_EQ(r.updates, 3);
  EXPECT_EQ(l.skipped(), 1);
  EXPECT_TRUE(std::isfinite(r.loss));
  for (const Tensor& t : all_of(l, &adam))
    for (const double v : t.to_doubles()) EXPECT_TRUE(std::isfinite(v));
  const SequenceGradient g = l.etrace_grad(all, ys, loss());
  EXPECT_TRUE(std::isfinite(g.loss));
  for (const Array& a : g.grads.values)
    for (const double v : a.tensor().to_doubles()) EXPECT_TRUE(std::isfinite(v));
  EXPECT_EQ(l.skipped(), 2);
  expect_error<ValueError>("steps 2 to 3", [&] { other.etrace_grad(all, ys, loss()); });
}

TEST_P(Failures, MovingOnWithoutLearning) {
  if (of_loss()) return;
  Learner l = make(NotFinite::Error);
  l.step(good);
  const auto before = all_of(l, nullptr);
  expect_error<ValueError>("would not be finite", [&] { l.step(bad()); });
  expect_error<ValueError>("would not be finite", [&] { l.update({bad()}); });
  EXPECT_EQ(all_of(l, nullptr), before);
}

INSTANTIATE_TEST_SUITE_P(NotFinite, Failures,
                         ::testing::Combine(::testing::Values(Failing{"state", Fragile::State},
                                                              Failing{"jacobian", Fragile::Jacobian},
                                                              Failing{"loss", Fragile::Loss}),
                                            ::testing::Values("D_RTRL", "pp_prop", "UORO", "EProp", "SnAp"),
                                            ::testing::Values(std::string("interpreter"))),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param) +
                                  "_" + std::get<2>(info.param);
                         });
INSTANTIATE_TEST_SUITE_P(NotFiniteNative, Failures,
                         ::testing::Combine(::testing::Values(Failing{"state", Fragile::State},
                                                              Failing{"jacobian", Fragile::Jacobian}),
                                            ::testing::Values("D_RTRL"),
                                            ::testing::Values(std::string("native"))),
                         [](const auto& info) { return std::string(std::get<0>(info.param).name); });

// Two states, the second behind the first, and noise from a key that samples share or have each.
struct NoisyNet : Module {
  bool shared;
  KeyState& key = state<KeyState>("key", 3, !shared);
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  HiddenState& g = hidden("g", {4}, Dtype::F64);
  ParamState& w = param("w", 0.5 * random::normal(random::key(1), {3, 4}, Dtype::F64));
  ParamState& u = param("u", 0.3 * random::normal(random::key(4), {4, 4}, Dtype::F64));
  explicit NoisyNet(bool s) : shared(s) {}
  static Arrays split(const Array& k) {
    const Array two = random::split(k);
    return {squeeze(slice_axis(two, 0, 0, 1), {0}), squeeze(slice_axis(two, 0, 1, 2), {0})};
  }
  Array noise() {
    const Array keys = key.value();
    Arrays next, values;
    for (std::int64_t b = 0; b < (shared ? 1 : keys.dim(0)); ++b) {
      const Arrays two = split(shared ? keys : squeeze(slice_axis(keys, 0, b, b + 1), {0}));
      next.push_back(expand_dims(two[0], {0}));
      values.push_back(expand_dims(random::normal(two[1], {4}, Dtype::F64), {0}));
    }
    key.set(shared ? squeeze(next[0], {0}) : concatenate(next));
    return broadcast_to(concatenate(values), h.value().shape());
  }
  Array update(const Array& x) override {
    const Array old = h.value();
    h.set(0.5 * old + matmul(x, w.value()) + 0.2 * matmul(tanh(old), u.value()) + 0.1 * noise());
    g.set(0.9 * g.value() + 0.1 * tanh(h.value()));
    return h.value() + g.value();
  }
};

// A step that overflows is left out of whatever it stands in: masks of steps or samples, padding, updates
// after every step or window. One call over the sequence and a call for every update end with the same bits.
TEST(NotFinite, SkippingInOneCallOrInMany) {
  constexpr std::int64_t kSteps = 6, kBad = 3;
  const Array by_step = array({1, 0.5, 0, 1, 0, 2}, {kSteps}, Dtype::F64),
              by_sample = array({1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0.5, 2}, {kSteps, 2}, Dtype::F64);
  std::vector<double> size(kSteps, 1.0);
  size[kBad] = 1e200;
  const Array x =
      random::normal(random::key(10), {kSteps, 2, 3}, Dtype::F64) * array(size, {kSteps, 1, 1}, Dtype::F64);
  const Array y = random::normal(random::key(11), {kSteps, 2, 4}, Dtype::F64);
  const Loss distance = [](const Array& a, const Array& b) { return sum(square(a - b)); };
  std::size_t compared = 0;
  for (const char* rule : {"D_RTRL", "pp_prop", "EProp", "ThreeFactor"})
    for (const Array& mask : {Array(), by_step, by_sample})
      for (const bool freeze : {false, true})
        for (const UpdateEvery every : {UpdateEvery::Step, UpdateEvery::Window}) {
          const bool samples = mask.defined() && mask.rank() == 2;
          if (freeze && (!mask.defined() || (samples && std::string_view(rule) == "pp_prop"))) continue;
          SCOPED_TRACE(fmt::format("{}, mask of rank {}, freeze {}, update {}", rule,
                                   mask.defined() ? mask.rank() : 0, freeze, static_cast<int>(every)));
          std::vector<std::vector<Tensor>> found;
          for (const std::int64_t part : {kSteps, every == UpdateEvery::Step ? std::int64_t{1} : 2}) {
            NoisyNet net(samples);
            optim::Adam adam(net, 0.01);
            RuleOptions options;
            if (std::string_view(rule) == "ThreeFactor") options.set("modulator", 0.7);
            Learner l = compile(net, *make_rule(rule, options), zeros({2, 3}, Dtype::F64),
                                {.batch_size = 2, .execution_window = 2, .not_finite = NotFinite::Skip});
            TrainOptions o;
            o.freeze = freeze, o.update = every, o.window = 2;
            for (std::int64_t t = 0; t < kSteps; t += part) {
              if (mask.defined()) o.mask = slice_axis(mask, 0, t, t + part);
              l.etrace_train(Arrays{slice_axis(x, 0, t, t + part), slice_axis(y, 0, t, t + part)},
                             step_function(distance, false, samples), adam, o);
            }
            EXPECT_EQ(l.skipped(), 1);
            found.push_back(all_of(l, &adam));
          }
          EXPECT_EQ(found[0], found[1]);
          for (const Tensor& t : found[0])
            for (const double v : t.to_doubles()) EXPECT_TRUE(std::isfinite(v));
          ++compared;
        }
  EXPECT_EQ(compared, 4U * (1U + 2U + 2U) * 2U - 2U);
}

// An update of which a part overflows: what is no number never gets in.
TEST(NotFinite, UpdatesThatOverflow) {
  LeakyNet net;
  optim::SGD sgd(net, 1e300);
  Learner l =
      compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .not_finite = NotFinite::Skip});
  const Array x = 1e10 * ones({4, 2, 3}, Dtype::F64), y = 1e10 * Random(2).f64({4, 2, 4});
  for (const UpdateEvery every : {UpdateEvery::Step, UpdateEvery::Window, UpdateEvery::Sequence})
    l.etrace_train(x, y, loss::mse, sgd, {{}, every, 2});
  for (const double v : net.w.value().tensor().to_doubles()) EXPECT_TRUE(std::isfinite(v));
  ParamValues g{param_leaf_ids(net), {full({3, 4}, 1e10, Dtype::F64)}};
  const Array before = net.w.value();
  expect_error<ValueError>("nothing was changed", [&] { sgd.update(g); });
  EXPECT_EQ(before.tensor(), net.w.value().tensor());
}

// Overflows ------------------------------------------------------------------------------------------------
// Finite factors whose product is not: h' = h/2 + slope·(x·w) with w = 0 has finite states and derivatives,
// and x·slope goes into the trace.
struct Steep : Module {
  double slope;
  HiddenState& h = hidden("h", {2});
  ParamState& w = param("w", zeros({3, 2}));
  explicit Steep(double s) : slope(s) {}
  Array update(const Array& x) override {
    const Array old = h.value();
    h.set(0.5 * old + slope * matmul(x, w.value()));
    return h.value();
  }
};
struct Overflow {
  const char* name;
  double slope, x;
  std::optional<Dtype> trace;
};
const Overflow kOverflows[] = {{"Product", 1e10, 1e30, {}},     // of f32
                               {"Half", 1e3, 1e3, Dtype::F16},  // beyond 65504
                               {"Brain", 1e10, 1e30, Dtype::BF16}};

class Overflows : public ::testing::TestWithParam<std::tuple<Overflow, std::string>> {
 protected:
  const Overflow& o = std::get<0>(GetParam());
  Steep net{o.slope};
  const Array large = full({3}, o.x, Dtype::F32), small = full({3}, 1e-3, Dtype::F32), target = ones({2});
  Learner make(NotFinite policy) {
    return compile(net, D_RTRL({.trace_dtype = o.trace}), zeros({3}),
                   {.backend = std::get<1>(GetParam()), .execution_window = 2, .not_finite = policy});
  }
  static Array steps(const Array& x) { return broadcast_to(expand_dims(x, {0}), x.shape().with_front(6)); }
  static bool finite(const Learner& l, const optim::Optimizer* optimizer) {
    for (const Tensor& t : all_of(l, optimizer))
      for (const double v : t.to_doubles())
        if (!std::isfinite(v)) return false;
    return true;
  }
};

TEST_P(Overflows, AStepSaysSoAndLearningGoesOn) {
  Learner l = make(NotFinite::Error);
  optim::SGD sgd(net, 1e-30);
  l.bind_step(loss::mse, &sgd);
  // What it makes of the trace is seen when a signal meets it, at the next step at the latest.
  expect_error<ValueError>(
      "these elements were not changed; relation0/group0/weight overflowed and starts anew", [&] {
        l.step(large, target);
        l.step(large, target);
      });
  EXPECT_EQ(l.skipped(), 1);
  EXPECT_TRUE(finite(l, &sgd));
  sgd.set_learning_rate(0.1);
  const Tensor before = net.w.value().tensor();
  l.step(small, target);
  l.step(small, target);
  EXPECT_NE(net.w.value().tensor(), before);
  EXPECT_TRUE(finite(l, &sgd));
}

TEST_P(Overflows, SequencesCountThemAndGoOn) {
  for (const UpdateEvery every : {UpdateEvery::Step, UpdateEvery::Window, UpdateEvery::Sequence}) {
    SCOPED_TRACE(static_cast<int>(every));
    Learner l = make(NotFinite::Skip);
    optim::Adam adam(net, 1e-30);
    l.etrace_train(steps(large), steps(target), loss::mse, adam, {{}, every, 2});
    EXPECT_GT(l.skipped(), 0);
    adam.set_learning_rate(1e-3);
    // The last window may have left a trace that is seen only now.
    l.etrace_train(steps(small), steps(target), loss::mse, adam, {{}, every, 2});
    const std::int64_t skipped = l.skipped();
    const Tensor before = net.w.value().tensor();
    l.etrace_train(steps(small), steps(target), loss::mse, adam, {{}, every, 2});
    EXPECT_EQ(l.skipped(), skipped);
    EXPECT_NE(net.w.value().tensor(), before);
    EXPECT_TRUE(finite(l, &adam));
    net.w.set(zeros({3, 2}));
  }
}

TEST_P(Overflows, GradientsOfSequencesGoOn) {
  Learner l = make(NotFinite::Skip);
  l.etrace_grad(steps(large), steps(target), loss::mse);
  EXPECT_EQ(l.skipped(), 1);
  const Array g = l.etrace_grad(steps(small), steps(target), loss::mse).grads.values[0];
  EXPECT_EQ(l.skipped(), 1);
  EXPECT_GT(norm(g), 0.0);
}

INSTANTIATE_TEST_SUITE_P(NotFinite, Overflows,
                         ::testing::Combine(::testing::ValuesIn(kOverflows),
                                            ::testing::Values(std::string("interpreter"),
                                                              std::string("native"))),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
                         });

// The square of a gradient goes into the slots of an optimiser.
TEST(NotFinite, SlotsThatOverflow) {
  Steep net(1.0);
  optim::Adam adam(net, 0.1);
  ParamValues g{param_leaf_ids(net), {full({3, 2}, 1e25, Dtype::F32)}};
  expect_error<ValueError>("the new value of w/v holds inf; nothing was changed", [&] { adam.update(g); });
  g.values[0] = ones({3, 2});
  adam.update(g);
  EXPECT_EQ(adam.step(), 1);
  EXPECT_LT(net.w.value().tensor().to_doubles()[0], -0.05) << "and it goes on";
}

}  // namespace
}  // namespace etrace
