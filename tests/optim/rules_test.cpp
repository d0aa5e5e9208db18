// Every rule against the same rule written out for one number, eager against recorded, and the table of
// names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "support/errors.h"
#include "support/functions.h"
#include "support/values.h"

namespace etrace::optim {
namespace {

using etrace::testing::expect_same;
using etrace::testing::message_of;
using etrace::testing::Random;
using etrace::testing::values;
using etrace::testing::vec;
using ::testing::AllOf;
using ::testing::HasSubstr;

// One parameter as plain numbers: value, memories, count of updates.
struct Number {
  double theta = 0.0, a = 0.0, b = 0.0;
  int t = 0;
};
using Reference = std::function<void(Number&, double g)>;
constexpr double kRate = 0.05, kDecay = 0.1;

// A few updates of two leaves by random gradients; every element follows the reference.
void expect_follows(const Optimizer& rule, const Reference& reference, double initial_a = 0.0) {
  Random random(7);
  Arrays params{random.f64({2, 3}), random.f64({4})};
  std::vector<std::vector<Number>> numbers;
  for (const Array& p : params) {
    numbers.emplace_back();
    for (const double v : values(p)) numbers.back().push_back({v, initial_a, 0.0, 0});
  }
  Arrays state = rule.init(params);
  for (int step = 0; step < 6; ++step) {
    const Arrays grads{random.f64({2, 3}), random.f64({4})};
    Updated out = rule.apply(params, grads, state);
    params = std::move(out.params);
    state = std::move(out.state);
    for (std::size_t i = 0; i < params.size(); ++i) {
      const std::vector<double> found = values(params[i]), g = values(grads[i]);
      for (std::size_t k = 0; k < found.size(); ++k) {
        ++numbers[i][k].t;
        reference(numbers[i][k], g[k]);
        EXPECT_NEAR(found[k], numbers[i][k].theta, 1e-12) << "step " << step << ", element " << k;
      }
    }
  }
  EXPECT_EQ(state[0].item<int>(), 6);
}

TEST(Rules, Sgd) {
  expect_follows(SGD(kRate), [](Number& n, double g) { n.theta -= kRate * g; });
  expect_follows(SGD(kRate, {}, {.weight_decay = kDecay}),
                 [](Number& n, double g) { n.theta -= kRate * (g + kDecay * n.theta); });
  expect_follows(SGD(kRate, {.momentum = 0.9}, {.weight_decay = kDecay}), [](Number& n, double g) {
    n.a = 0.9 * n.a + (g + kDecay * n.theta);
    n.theta -= kRate * n.a;
  });
  expect_follows(SGD(kRate, {.momentum = 0.9, .nesterov = true}), [](Number& n, double g) {
    n.a = 0.9 * n.a + g;
    n.theta -= kRate * (g + 0.9 * n.a);
  });
}

double adam_step(Number& n, double g, double b1, double b2, double epsilon) {
  n.a = b1 * n.a + (1 - b1) * g;
  n.b = b2 * n.b + (1 - b2) * g * g;
  const double m = n.a / (1 - std::pow(b1, n.t)), v = n.b / (1 - std::pow(b2, n.t));
  return m / (std::sqrt(v) + epsilon);
}

TEST(Rules, Adam) {
  expect_follows(Adam(kRate),
                 [](Number& n, double g) { n.theta -= kRate * adam_step(n, g, 0.9, 0.999, 1e-8); });
  expect_follows(
      Adam(kRate, {.beta1 = 0.0, .beta2 = 0.5, .epsilon = 0.1}, {.weight_decay = kDecay}),
      [](Number& n, double g) { n.theta -= kRate * adam_step(n, g + kDecay * n.theta, 0.0, 0.5, 0.1); });
}

TEST(Rules, AdamWithTheEpsilonInFrontOfTheCorrection) {
  const auto reference = [](Number& n, double g) {
    n.a = 0.9 * n.a + 0.1 * g;
    n.b = 0.999 * n.b + 0.001 * g * g;
    const double scale = std::sqrt(1 - std::pow(0.999, n.t)) / (1 - std::pow(0.9, n.t));
    n.theta -= kRate * scale * n.a / (std::sqrt(n.b) + 0.1);
  };
  expect_follows(Adam(kRate, {.epsilon = 0.1, .epsilon_first = true}), reference);
  expect_follows(*make("adam", {.learning_rate = kRate, .numbers = {{"epsilon", 0.1}, {"epsilon_first", 1}}}),
                 reference);
}

TEST(Rules, AdamW) {
  const auto with_decay = [](double decay) {
    return [decay](Number& n, double g) {
      n.theta = n.theta - kRate * decay * n.theta - kRate * adam_step(n, g, 0.9, 0.999, 1e-8);
    };
  };
  expect_follows(AdamW(kRate), with_decay(0.01));
  expect_follows(AdamW(kRate, {}, {.weight_decay = kDecay}), with_decay(kDecay));
  expect_follows(AdamW(kRate, {}, {.weight_decay = 0.0}), with_decay(0.0));
}

TEST(Rules, Rmsprop) {
  expect_follows(RMSprop(kRate), [](Number& n, double g) {
    n.a = 0.99 * n.a + 0.01 * g * g;
    n.theta -= kRate * g / (std::sqrt(n.a) + 1e-8);
  });
  expect_follows(RMSprop(kRate, {.decay = 0.9, .epsilon = 1e-3, .momentum = 0.8}), [](Number& n, double g) {
    n.a = 0.9 * n.a + 0.1 * g * g;
    n.b = 0.8 * n.b + g / (std::sqrt(n.a) + 1e-3);
    n.theta -= kRate * n.b;
  });
}

TEST(Rules, Adagrad) {
  expect_follows(Adagrad(kRate), [](Number& n, double g) {
    n.a += g * g;
    n.theta -= kRate * g / (std::sqrt(n.a) + 1e-10);
  });
  const Reference reference = [](Number& n, double g) {
    n.a += g * g;
    n.theta -= kRate * g / (std::sqrt(n.a) + 0.01);
  };
  expect_follows(Adagrad(kRate, {.initial_sum = 0.5, .epsilon = 0.01}), reference, 0.5);
}

TEST(Rules, Lion) {
  expect_follows(Lion(kRate, {}, {.weight_decay = kDecay}), [](Number& n, double g) {
    const double c = 0.9 * n.a + 0.1 * g;
    n.theta -= kRate * ((c > 0 ? 1.0 : -1.0) + kDecay * n.theta);
    n.a = 0.99 * n.a + 0.01 * g;
  });
}

TEST(Rules, ByHand) {
  const Array theta = vec({1.0, -2.0}, Dtype::F64), g = vec({0.5, -4.0}, Dtype::F64);
  const auto after_one = [&](const Optimizer& rule) {
    return values(rule.apply(Arrays{theta}, Arrays{g}, rule.init(Arrays{theta})).params[0]);
  };
  EXPECT_EQ(after_one(SGD(0.5)), (std::vector<double>{0.75, 0.0}));
  EXPECT_EQ(after_one(Lion(0.5)), (std::vector<double>{0.5, -1.5}));
  // The first step of Adam has the size of the learning rate, whatever the gradient.
  expect_same(Arrays{vec(after_one(Adam(0.25, {.epsilon = 1e-15})), Dtype::F64)},
              Arrays{vec({0.75, -1.75}, Dtype::F64)});
}

// In f32 the bias correction must not suffer from 1 − β₂ being small.
TEST(Rules, AdamInSinglePrecision) {
  const Adam rule(1.0, {.epsilon = 1e-20});
  Arrays params{zeros({1})}, state = rule.init(params);
  for (int t = 1; t <= 20; ++t) {
    const Updated out = rule.apply(params, Arrays{full({1}, 0.01, Dtype::F32)}, state);
    params = out.params;
    state = out.state;
    EXPECT_NEAR(values(params[0])[0], -t, 4e-7 * t);  // a constant gradient: every step has size 1
  }
}

// Eager and recorded ----------------------------------------------------------------------------------------
Arrays joined(const Arrays& a, const Arrays& b, const Arrays& c) {
  Arrays out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

TEST(Rules, EagerEqualsRecordedBitForBit) {
  for (const Entry& entry : all())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
      SCOPED_TRACE(entry.name);
      const auto rule = make(entry.name, {.learning_rate = schedule::cosine(0.1, 6, 2),
                                          .common = {.clip_norm = 0.5,
                                                     .clip_value = 0.6,
                                                     .weight_decay = 0.01,
                                                     .constraints = {non_negative("0"), keep_sign("1")}}});
      Random random(9);
      const auto draw = [&] { return Arrays{random.tensor({dtype, {3, 2}}), random.tensor({dtype, {5}})}; };
      Arrays params = draw(), state = rule->init(params);
      const ClosedJaxpr program = make_jaxpr(
          [&](ArraySpan a) {
            const Updated out = rule->apply(a.subspan(0, 2), a.subspan(2, 2), a.subspan(4));
            return joined(out.params, out.state, {});
          },
          avals_of(joined(params, params, state)));
      const Executable run(program);
      for (int step = 0; step < 4; ++step) {
        const Arrays grads = draw();
        const Tensors recorded = run(to_tensors(joined(params, grads, state)));
        Updated eager = rule->apply(params, grads, state);
        EXPECT_EQ(recorded, to_tensors(joined(eager.params, eager.state, {}))) << "step " << step;
        params = std::move(eager.params);
        state = std::move(eager.state);
      }
    }
}

// Moves along the gradient by the same length everywhere: no element can be updated by itself.
class Normalized final : public Optimizer {
 public:
  Normalized() : Optimizer(0.1, {}) {}
  std::string_view name() const override { return "normalized"; }

 protected:
  std::vector<Slot> slots() const override { return {{"last"}}; }
  Direction direction(const Array& grad, ArraySpan, const Array&) const override {
    return {grad / sqrt(sum(square(grad))), {grad}};
  }
};

// Large leaves are updated piece by piece, if the rule works element by element; recorded programs never are.
TEST(Rules, LargeLeavesHaveTheBitsOfSmallOnes) {
  const std::int64_t many = (1 << 18) + 5;
  std::vector<std::unique_ptr<Optimizer>> rules;
  for (const Entry& entry : all()) rules.push_back(make(entry.name));
  rules.push_back(std::make_unique<Normalized>());
  for (const auto& rule : rules) {
    SCOPED_TRACE(rule->name());
    Random random(11);
    Arrays params{random.tensor({Dtype::F32, {many}}), random.tensor({Dtype::F32, {3}})};
    Arrays state = rule->init(params);
    const ClosedJaxpr program = make_jaxpr(
        [&](ArraySpan a) {
          const Updated out = rule->apply(a.subspan(0, 2), a.subspan(2, 2), a.subspan(4));
          return joined(out.params, out.state, {});
        },
        avals_of(joined(params, params, state)));
    const Arrays grads{random.tensor({Dtype::F32, {many}}), random.tensor({Dtype::F32, {3}})};
    for (int step = 0; step < 2; ++step) {  // first with slots that are one value, then with arrays
      const Tensors recorded = evaluate(program, to_tensors(joined(params, grads, state)));
      Updated eager = rule->apply(params, grads, state);
      EXPECT_EQ(recorded, to_tensors(joined(eager.params, eager.state, {}))) << "step " << step;
      params = std::move(eager.params);
      state = std::move(eager.state);
    }
  }
}

// Names -----------------------------------------------------------------------------------------------------
TEST(Rules, ByName) {
  const auto rules = all();
  EXPECT_TRUE(std::is_sorted(rules.begin(), rules.end(),
                             [](const Entry& a, const Entry& b) { return a.name < b.name; }));
  for (const Entry& entry : rules) {
    const auto rule = make(entry.name);
    EXPECT_EQ(rule->name(), entry.name);
    EXPECT_EQ(rule->schedule().at(0), entry.learning_rate);
    EXPECT_FALSE(rule->bound());
  }
  expect_follows(*make("sgd", {.learning_rate = kRate, .numbers = {{"nesterov", 1}, {"momentum", 0.9}}}),
                 [](Number& n, double g) {
                   n.a = 0.9 * n.a + g;
                   n.theta -= kRate * (g + 0.9 * n.a);
                 });
  EXPECT_EQ(make("adamw")->weight_decay(), 0.01);
  EXPECT_EQ(make("adam")->weight_decay(), 0.0);
  EXPECT_THAT(message_of<ValueError>([] { make("adem"); }),
              AllOf(HasSubstr("'adem'"), HasSubstr("adagrad, adam, adamw, lion, rmsprop, sgd")));
  EXPECT_THAT(message_of<ValueError>([] {
                make("adam", {.numbers = {{"momentum", 0.9}}});
              }),
              AllOf(HasSubstr("adam has no number 'momentum'"), HasSubstr("beta1, beta2, epsilon")));
}

TEST(Rules, NumbersAreChecked) {
  const auto refuses = [](const char* rule, const char* number, double value, const char* phrase) {
    EXPECT_THAT(message_of<ValueError>([&] {
                  make(rule, {.numbers = {{number, value}}});
                }),
                AllOf(HasSubstr(rule), HasSubstr(number), HasSubstr(phrase)));
  };
  refuses("sgd", "momentum", 1.0, "is 1; expected at least 0 and less than 1");
  refuses("sgd", "momentum", -0.1, "is -0.1");
  refuses("adam", "beta1", 1.5, "less than 1");
  refuses("adam", "beta2", NAN, "nan");
  refuses("adamw", "epsilon", 0.0, "greater than 0");
  refuses("rmsprop", "decay", 1.0, "less than 1");
  refuses("adagrad", "initial_sum", -1.0, "0 or greater");
  refuses("lion", "beta2", 1.0, "less than 1");
  EXPECT_THAT(message_of<ValueError>([] { SGD(0.1, {.nesterov = true}); }), HasSubstr("momentum"));
  EXPECT_THAT(message_of<ValueError>([] { Adam(-1e-3); }), HasSubstr("learning rate is -0.001"));
  EXPECT_THAT(message_of<ValueError>([] { Adam(1e-3, {}, {.clip_norm = 0.0}); }),
              HasSubstr("clip_norm is 0"));
  EXPECT_THAT(message_of<ValueError>([] { Adam(1e-3, {}, {.clip_value = -1.0}); }), HasSubstr("clip_value"));
  EXPECT_THAT(message_of<ValueError>([] { Adam(1e-3, {}, {.weight_decay = -1.0}); }),
              HasSubstr("weight_decay is -1"));
}

}  // namespace
}  // namespace etrace::optim
