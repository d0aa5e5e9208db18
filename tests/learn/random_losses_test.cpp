// Random losses: of several results, with penalties that read the model's parameters, weighted by masks that
// are zero here and there, with resets on the way. What every entry point gives is held against central
// differences of the same loss computed at once, array by array, which know nothing of programs.
#include <fmt/format.h>

#include <random>

#include "etrace/host.h"
#include "etrace/verify.h"
#include "learn/scenario.h"

namespace etrace::random_losses_test {
namespace {

using namespace testing;

constexpr std::int64_t kSteps = 5, kBatch = 2;

// A layer that D-RTRL learns exactly, and two behind it; three results, the last of old states.
struct Net : Module {
  ParamState& win = param("win", 0.5 * random::normal(random::key(1), {3, 4}, Dtype::F64));
  ParamState& w = param("w", 0.5 * random::normal(random::key(2), {4, 4}, Dtype::F64));
  ParamState& out = param("out", NamedArrays{{"b", 0.1 * random::normal(random::key(3), {2}, Dtype::F64)},
                                             {"w", random::normal(random::key(4), {4, 2}, Dtype::F64)}});
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  bool several;
  explicit Net(bool s) : several(s) {}
  Arrays update_all(ArraySpan x) override {
    const Array before = h.value();
    h.set(tanh(matmul(x[0], win.value()) + 0.6 * before));
    const Array inner = tanh(matmul(h.value(), w.value()));
    const Array y = matmul(inner, out.value("w")) + out.value("b");
    return several ? Arrays{y, square(h.value()), sum(before, {1})} : Arrays{y};
  }
};

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed * 6271 + 5) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < p; }

 private:
  std::mt19937_64 engine_;
};

// A sum of terms, chosen by the bits of a number; of one result or of all.
Array drawn_loss(const Net& net, std::uint64_t terms, ArraySpan r, const Array& target) {
  const Array &w = net.w.value(), &b = net.out.value("b");
  Array total = mean(square(r[0] - target));
  if ((terms & 1) != 0) total = total + 0.3 * sum(square(w));
  if ((terms & 2) != 0) total = total + 0.2 * sum(abs(net.win.value()));
  if ((terms & 4) != 0) total = total + sum(w * w * tanh(w)) + 0.5 * sum(b * sum(net.out.value("w"), {0}));
  if ((terms & 8) != 0) total = total + mean(r[0] * sum(net.out.value("w"), {0}));  // both ways at once
  if (r.size() > 1 && (terms & 16) != 0) total = total + 0.7 * mean(r[1] * expand_dims(sum(w, {0}), {0}));
  if (r.size() > 1 && (terms & 32) != 0) total = total + mean(tanh(r[2])) * sum(b);
  return total;
}

struct Case {
  std::uint64_t seed, terms;
  bool several, masked, per_sample, freeze;
  Array xs, ys, mask;
};

Case draw_case(std::uint64_t seed) {
  Draws d(seed);
  Case c{.seed = seed, .terms = static_cast<std::uint64_t>(d.below(64)) | (d.chance(0.8) ? 1U : 0U)};
  c.several = d.chance(0.6), c.masked = d.chance(0.6), c.per_sample = c.masked && d.chance(0.4);
  c.freeze = c.masked && d.chance(0.5);
  c.xs = random::normal(random::key(100 + seed), {kSteps, kBatch, 3}, Dtype::F64);
  c.ys = random::normal(random::key(200 + seed), {kSteps, kBatch, 2}, Dtype::F64);
  const Shape shape = c.per_sample ? Shape{kSteps, kBatch} : Shape{kSteps};
  if (c.masked) c.mask = relu(random::normal(random::key(300 + seed), shape, Dtype::F64)) + 0.0;
  if (c.masked && sum(c.mask).item<double>() == 0.0) c.mask = full(shape, 1.0, Dtype::F64);
  return c;
}

Loss loss_of(const Net& net, const Case& c) {
  return [&net, terms = c.terms](ArraySpan r, const Array& t) { return drawn_loss(net, terms, r, t); };
}

// Σ weight·loss of the whole sequence, from zero, at once.
double total_loss(Net& net, const Case& c) {
  double total = 0.0;
  net.h.set(zeros({kBatch, 4}, Dtype::F64));
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const Array x = item(c.xs, t), y = item(c.ys, t), before = net.h.value();
    const Arrays r = net(ArraySpan(&x, 1));
    if (!c.per_sample) {
      const double weight = c.masked ? item(c.mask, t).item<double>() : 1.0;
      if (c.freeze && weight == 0.0) net.h.set(before);
      if (weight != 0.0) total += weight * drawn_loss(net, c.terms, r, y).item<double>();
      continue;
    }
    Arrays now;
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const double weight = item(item(c.mask, t), b).item<double>();
      Arrays of_sample;
      for (const Array& a : r) of_sample.push_back(item(a, b));
      if (weight != 0.0) total += weight * drawn_loss(net, c.terms, of_sample, item(y, b)).item<double>();
      now.push_back(item(c.freeze && weight == 0.0 ? before : net.h.value(), b));
    }
    net.h.set(stack(now, 0));
  }
  return total;
}

// Along one random direction of each leaf.
void expect_slopes(Net& net, const Case& c, const ParamValues& found, const char* what) {
  std::uint64_t k = 0;
  for (State* state :
       {static_cast<State*>(&net.win), static_cast<State*>(&net.w), static_cast<State*>(&net.out)})
    for (std::size_t leaf = 0; leaf < state->avals().size(); ++leaf) {
      const Array at = state->leaf(leaf).get();
      const Array v = random::normal(random::key(900 + c.seed + ++k), at.shape(), Dtype::F64);
      constexpr double kStep = 1e-5;
      const auto moved = [&](double by) {
        state->leaf(leaf).set(at + by * v);
        return total_loss(net, c);
      };
      const double up = moved(kStep), down = moved(-kStep), expected = (up - down) / (2.0 * kStep);
      state->leaf(leaf).set(at);
      const std::string key = state->leaf_keys().empty() ? "" : "." + state->leaf_keys()[leaf];
      const Array& g = found.at(state->name_in_owner() + key);
      EXPECT_NEAR(sum(g * v).item<double>(), expected, 1e-7 * (1.0 + std::abs(expected)))
          << "seed " << c.seed << ", " << what << ", " << state->name_in_owner() << key;
    }
}

struct Way {
  const char* name;
  VjpMethod method;
  std::optional<std::int64_t> window, chunk;
  bool host = false;
};
constexpr VjpMethod kSingle = VjpMethod::SingleStep, kMulti = VjpMethod::MultiStep;
const Way kWays[] = {{"steps, windows of 1", kSingle, 1, {}}, {"steps, windows of 3", kSingle, 3, {}},
                     {"steps, one window", kSingle, 32, {}},  {"windows of 1", kMulti, {}, {}},
                     {"windows of 2", kMulti, {}, 2},         {"whole sequence", kMulti, {}, kSteps},
                     {"step by step", kSingle, 1, {}, true}};

ParamValues gradient_of(Net& net, const Case& c, const Way& way, const std::string& backend) {
  Learner learner = compile(
      net, D_RTRL(), item(c.xs, 0),
      {.batch_size = kBatch, .vjp_method = way.method, .backend = backend, .execution_window = way.window});
  const Loss loss = loss_of(net, c);
  if (!way.host)
    return learner
        .etrace_grad(
            c.xs, c.ys, loss,
            {.mask = c.mask, .freeze = c.freeze, .chunk_size = way.chunk, .reduction = Reduction::Sum})
        .grads;
  learner.bind_step(loss);
  GradientSum all;
  for (std::int64_t t = 0; t < kSteps; ++t) {
    ParamValues now = learner.step(item(c.xs, t), item(c.ys, t)).grads;
    for (Array& a : now.values) a = Array(Tensor::copy_of(a.aval(), a.tensor().bytes()));
    all.add(now);
  }
  return all.value();
}

class RandomLosses : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomLosses, HaveTheSlopesOfTheirValues) {
  const std::uint64_t seeds = GetParam() == "interpreter" ? 40 : 3;
  for (std::uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    const Case c = draw_case(seed);
    for (const Way& way : kWays) {
      if (way.host && c.masked) continue;
      Net net(c.several);
      expect_slopes(net, c, gradient_of(net, c, way, GetParam()), way.name);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Backends, RandomLosses, ::testing::Values("interpreter", "native"),
                         [](const auto& info) { return info.param; });

TEST(RandomLosses, AreJudgedByVerify) {
  Net net(true);
  init_all_states(net, kBatch);
  const Case c = draw_case(1);
  const VerifyReport report =
      verify(net, D_RTRL(), c.xs, c.ys,
             Loss([&](ArraySpan r, const Array& t) { return drawn_loss(net, 63, r, t); }));
  EXPECT_TRUE(report.met()) << report.to_string();
  Net other(true);
  init_all_states(other, kBatch);
  const double plain = verify(other, D_RTRL(), c.xs, c.ys,
                              Loss([&](ArraySpan r, const Array& t) { return drawn_loss(other, 0, r, t); }))
                           .leaves.front()
                           .norm;
  EXPECT_GT(std::abs(report.leaves.front().norm - plain), 1e-2) << "the penalty counts in the reference";
}

// Of every rule: the gradient of a penalty is there beside what the rule gives.
TEST(OwnParametersOfLosses, CountUnderEveryRule) {
  const Array xs = Random(1).f64({6, 2, 3}), ys = Random(2).f64({6, 2, 4});
  for (const VjpMethod method : {kSingle, kMulti})
    for (const RuleRow* row : rows_that_run(method)) {
      LeakyNet net;
      const auto gradient = [&](const Loss& loss) {
        Learner learner = compile(net, *telling_rule(*row), zeros({2, 3}, Dtype::F64),
                                  {.batch_size = 2, .vjp_method = method});
        return learner.etrace_grad(xs, ys, loss).grads.at("w");
      };
      const Array without = gradient(loss::mse);
      const Array with = gradient(
          [&](const Array& y, const Array& t) { return loss::mse(y, t) + 5.0 * sum(square(net.w.value())); });
      EXPECT_LT(relative_deviation(with, without + 10.0 * net.w.value()), 1e-12) << row->name;
    }
}

TEST(OwnParametersOfLosses, AreReadAnewAtEveryStep) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  learner.bind_step([&](const Array& y, const Array&) { return 0.0 * sum(y) + sum(square(net.w.value())); });
  const Array x = zeros({2, 3}, Dtype::F64), y = zeros({2, 4}, Dtype::F64);
  EXPECT_NEAR(learner.step(x, y).loss, sum(square(net.w.value())).item<double>(), 1e-12);
  net.w.set(2.0 * net.w.value());
  EXPECT_NEAR(learner.step(x, y).loss, sum(square(net.w.value())).item<double>(), 1e-12);
  optim::SGD optimizer(net, 0.1);
  learner.bind_step([&](const Array& o, const Array&) { return 0.0 * sum(o) + sum(square(net.w.value())); },
                    &optimizer);
  const Array before = net.w.value();
  learner.step(x, y);
  EXPECT_LT(relative_deviation(net.w.value(), 0.8 * before), 1e-12) << "updates follow it";
}

TEST(OwnParametersOfLosses, AreTheLearnersTooWhereItHasThemAlone) {
  Learner learner = make_learner(tanh_rnn(), D_RTRL());
  const Array xs = Random(1).f64({4, 3}), ys = Random(2).f64({4, 4});
  const ParamValues g = learner
                            .etrace_grad(xs, ys,
                                         [&](const Array& y, const Array&) {
                                           return 0.0 * sum(y) + sum(square(learner.params().at("w")));
                                         })
                            .grads;
  EXPECT_LT(relative_deviation(g.at("w"), 2.0 * learner.params().at("w")), 1e-12);
}

// What cannot be differentiated, or would stay as it was, is refused by name.
struct Parts : Module {
  LeakyNet& net = child<LeakyNet>("net");
  ParamState& unused = param("unused", ones({2}, Dtype::F64));
  ShortTermState& count = short_term("count", zeros({}, Dtype::F64), false);
  Array update(const Array& x) override {
    count.set(count.value() + 1.0);
    return net(x);
  }
};

class RefusedReads : public ::testing::Test {
 protected:
  Parts parts;
  Learner learner = compile(parts, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  const Array xs = zeros({4, 2, 3}, Dtype::F64), ys = zeros({4, 2, 4}, Dtype::F64);
  void expect(const std::function<Array()>& term, const char* text) {
    expect_error<NotSupportedError>(text, [&] {
      learner.etrace_grad(xs, ys, [&](const Array& y, const Array&) { return sum(y) + sum(term()); });
    });
  }
};

TEST_F(RefusedReads, SayWhatAndWhatToDo) {
  expect([&] { return parts.net.v.value(); }, "reads HiddenState net/v outside of the model's step");
  expect([&] { return parts.count.value(); }, "reads ShortTermState count outside of the model's step");
  expect([&] { return learner.state("net/v"); }, "reads the state net/v outside of the model's step");
  expect([&] { return parts.unused.value(); },
         "reads the parameter unused, which the model's step does not use");
  expect(
      [&] {
        parts.count.set(1.0);
        return zeros({}, Dtype::F64);
      },
      "writes ShortTermState 'count'");
  expect_error<NotSupportedError>(
      "argument 0 of the model depends on a parameter that the function reads itself", [&] {
        learner.etrace_grad(Arrays{xs, ys}, [&](StepCall& m, ArraySpan s) {
          return LossAndAux{sum(m(s[0] * sum(parts.net.w.value())))};
        });
      });
  EXPECT_FALSE(parts.net.w.value().is_tracer()) << "every state has its value back";
  EXPECT_FALSE(parts.net.v.value().is_tracer());
}

TEST_F(RefusedReads, AreNoneForPlacesOfOtherModels) {
  LeakyNet other;
  const double sum_of = sum(other.w.value()).item<double>();
  std::vector<std::string> said;
  set_warning_sink([&](const std::string& text) { said.push_back(text); });
  const double loss = learner
                          .etrace_grad(xs, ys,
                                       [&](const Array& y, const Array&) {
                                         return sum(y) + sum(other.w.value()) + 0.0 * sum(other.w.value());
                                       })
                          .loss;
  set_warning_sink({});
  EXPECT_NEAR(loss, sum_of, 1e-12);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], ::testing::HasSubstr("reads ParamState 'w', which is not of the model"));
}

TEST(LossesOfSeveralResults, OfOneAreRefused) {
  Net net(true);
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = kBatch});
  const Array x = zeros({2, 3}, Dtype::F64), y = zeros({2, 2}, Dtype::F64);
  learner.bind_step(loss::mse);
  const char* const text = "the model has 3 results, and the loss takes one";
  expect_error<ValueError>(text, [&] { learner.step(x, y); });
  expect_error<ValueError>(text,
                           [&] { learner.etrace_grad(expand_dims(x, {0}), expand_dims(y, {0}), loss::mse); });
}

}  // namespace
}  // namespace etrace::random_losses_test
