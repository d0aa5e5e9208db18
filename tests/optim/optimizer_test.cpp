// What all rules share: binding to a model, clipping, constraints, state, and what is refused.
#include "etrace/optim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "etrace/loss.h"
#include "etrace/models.h"
#include "etrace/transform.h"
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Leaves: gain, out/W.bias, out/W.weight.
struct Net : Module {
  struct Readout : Module {
    ParamState& W = param("W", NamedArrays{{"bias", array({0.5, -0.5}, Dtype::F64)},
                                           {"weight", array({{1, -2}, {3, -4}, {0, 6}}, Dtype::F64)}});
  };
  Readout& out = child<Readout>("out");
  ParamState& gain = param("gain", array({2.0}, {}, Dtype::F64));
};

ParamValues gradients(const Module& model, std::uint64_t seed) {
  Random random(seed);
  ParamValues grads = param_values(model);
  for (Array& v : grads.values) v = random.f64(v.shape());
  return grads;
}

Tensors params_of(const Module& model) { return to_tensors(param_values(model).values); }

// On a model ------------------------------------------------------------------------------------------------
TEST(Optimizer, MovesTheParametersOfAModel) {
  Net model;
  SGD optimizer(model, 0.5);
  EXPECT_EQ(optimizer.leaves(), param_leaf_ids(model));
  const ParamValues before = param_values(model), grads = gradients(model, 1);
  optimizer.update(grads);
  for (std::size_t i = 0; i < before.values.size(); ++i)
    expect_same(Arrays{param_values(model).values[i]}, Arrays{before.values[i] - 0.5 * grads.values[i]});
  EXPECT_EQ(optimizer.step(), 1);
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
}

TEST(Optimizer, TheSameOnAModelAndAsAFunction) {
  Net model;
  Adam bound(model, schedule::cosine(0.1, 10, 2), {}, {.clip_norm = 1.0});
  const Adam pure(schedule::cosine(0.1, 10, 2), {}, {.clip_norm = 1.0});
  Arrays params = param_values(model).values, state = pure.init(params);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const ParamValues grads = gradients(model, step);
    bound.update(grads);
    Updated out = pure.apply(params, grads.values, state);
    params = std::move(out.params);
    state = std::move(out.state);
    EXPECT_EQ(params_of(model), to_tensors(params));
  }
  EXPECT_EQ(bound.learning_rate(), schedule::cosine(0.1, 10, 2).at(3));
}

TEST(Optimizer, UndefinedIsZeroAndMissingIsUntouched) {
  Net model;
  SGD optimizer(model, 0.5, {.momentum = 0.5});
  optimizer.update(gradients(model, 1));
  const ParamValues before = param_values(model);
  const auto state = optimizer.state();
  // Order is free: the last leaf gets no gradient, the first a zero one, the middle one is not named.
  optimizer.update({{before.leaves[2], before.leaves[0]}, {Array(), Array()}});
  const ParamValues after = param_values(model);
  EXPECT_EQ(after.values[1].tensor(), before.values[1].tensor());
  EXPECT_EQ(optimizer.state()[2].second, state[2].second);
  for (const std::size_t i : {0U, 2U}) {
    const Array momentum = state[1 + i].second;
    expect_same(Arrays{after.values[i]}, Arrays{before.values[i] - 0.25 * momentum});
  }
  EXPECT_EQ(optimizer.step(), 2);
}

TEST(Optimizer, RefusesGradientsThatDoNotFit) {
  Net model;
  SGD optimizer(model, 0.5);
  const Tensors before = params_of(model);
  const ParamValues good = gradients(model, 1);
  const auto refused = [&](auto change) {
    ParamValues grads = good;
    change(grads);
    return [&optimizer, grads] { optimizer.update(grads); };
  };
  EXPECT_THAT(message_of<ValueError>(refused([](ParamValues& g) {
                g.leaves[0].path = {"rnn", "W"};
              })),
              AllOf(HasSubstr("rnn/W"), HasSubstr("gain, out/W.bias, out/W.weight")));
  EXPECT_THAT(message_of<ValueError>(refused([](ParamValues& g) { g.leaves[0] = g.leaves[1]; })),
              HasSubstr("two gradients for out/W.bias"));
  EXPECT_THAT(message_of<ValueError>(refused([](ParamValues& g) { g.values.pop_back(); })),
              HasSubstr("2 gradients for 3 leaves"));
  EXPECT_THAT(message_of<ValueError>(refused([](ParamValues& g) {
                g.values[2] = zeros({2, 3}, Dtype::F64);
              })),
              AllOf(HasSubstr("out/W.weight is f64[2,3]"), HasSubstr("expected f64[3,2]")));
  EXPECT_THAT(message_of<TypeError>(refused([](ParamValues& g) {
                g.values[2] = zeros({3, 2});
              })),
              AllOf(HasSubstr("f32[3,2]"), HasSubstr("f64[3,2]")));
  EXPECT_THAT(message_of<TypeError>([&] {
                record(Avals{{Dtype::F64, {}}}, [&](ArraySpan a) -> Arrays {
                  ParamValues grads = good;
                  grads.values[0] = a[0];
                  optimizer.update(grads);
                  return {};
                });
              }),
              HasSubstr("apply()"));
  EXPECT_EQ(params_of(model), before);
  EXPECT_EQ(optimizer.step(), 0);

  const Adam unbound(1e-3);
  EXPECT_THAT(message_of<ValueError>([&] { unbound.step(); }), HasSubstr("bind(model)"));
  EXPECT_THAT(message_of<ValueError>([&] { unbound.state(); }), HasSubstr("adam"));
}

TEST(Optimizer, TrainsABuiltinModel) {
  const ReadyModel ready = make_model("rnn", {.dtype = Dtype::F64});
  Adam optimizer(*ready.module, 0.05);
  const ParamValues initial = param_values(*ready.module);
  // Pulls every parameter towards 1.
  const Function f = value_and_grad(
      [&](ArraySpan a) {
        Array total = loss::mse(a[0], ones_like(a[0]));
        for (const Array& p : a.subspan(1)) total = total + loss::mse(p, ones_like(p));
        return total;
      },
      [&] {
        std::vector<int> argnums;
        for (std::size_t i = 0; i < initial.values.size(); ++i) argnums.push_back(static_cast<int>(i));
        return argnums;
      }());
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 60; ++step) {
    Arrays out = f(param_values(*ready.module).values);
    last = out[0].item<double>();
    if (step == 0) first = last;
    optimizer.update({initial.leaves, Arrays(out.begin() + 1, out.end())});
  }
  EXPECT_LT(last, 0.05 * first);
}

// Clipping --------------------------------------------------------------------------------------------------
Arrays step_of(const Optimizer& rule, const Arrays& params, const Arrays& grads) {
  return rule.apply(params, grads, rule.init(params)).params;
}

TEST(Optimizer, ClipsTheNormOfAllGradientsTogether) {
  const Arrays zero{zeros({2}, Dtype::F64), zeros({}, Dtype::F64)};
  const Arrays grads{vec({3, 0}, Dtype::F64), array({4}, {}, Dtype::F64)};  // norm 5
  const double factor = 2.0 / (5.0 + 1e-6);
  expect_same(step_of(SGD(1.0, {}, {.clip_norm = 2.0}), zero, grads),
              Arrays{grads[0] * -factor, grads[1] * -factor});
  expect_same(step_of(SGD(1.0, {}, {.clip_norm = 6.0}), zero, grads), Arrays{-grads[0], -grads[1]});
  // Frozen leaves, masked elements and undefined gradients do not count.
  const double alone = 2.0 / (3.0 + 1e-6);
  expect_same(step_of(SGD(1.0, {}, {.clip_norm = 2.0, .frozen = {"1"}}), zero, grads),
              Arrays{grads[0] * -alone, zero[1]});
  expect_same(
      step_of(SGD(1.0, {}, {.clip_norm = 2.0, .constraints = {fixed_mask("1", Array(false))}}), zero, grads),
      Arrays{grads[0] * -alone, zero[1]});
  expect_same(step_of(SGD(1.0, {}, {.clip_norm = 2.0}), zero, {grads[0], Array()}),
              Arrays{grads[0] * -alone, zero[1]});
}

TEST(Optimizer, ClipsValuesBeforeTheNorm) {
  const Arrays zero{zeros({3}, Dtype::F64)}, grads{vec({-7, 0.5, 3}, Dtype::F64)};
  expect_same(step_of(SGD(1.0, {}, {.clip_value = 1.0}), zero, grads),
              Arrays{vec({1, -0.5, -1}, Dtype::F64)});
  const double factor = 0.75 / (1.5 + 1e-6);
  expect_same(step_of(SGD(1.0, {}, {.clip_norm = 0.75, .clip_value = 1.0}), zero, grads),
              Arrays{factor * vec({1, -0.5, -1}, Dtype::F64)});
}

TEST(Optimizer, DecayIsAddedAfterClipping) {
  const Arrays params{vec({10, -10}, Dtype::F64)}, grads{vec({3, 4}, Dtype::F64)};
  const double factor = 1.0 / (5.0 + 1e-6);
  expect_same(step_of(SGD(1.0, {}, {.clip_norm = 1.0, .weight_decay = 0.1}), params, grads),
              Arrays{params[0] - (factor * grads[0] + 0.1 * params[0])});
}

// Leaves by name --------------------------------------------------------------------------------------------
TEST(Optimizer, FreezesByName) {
  for (const auto& [name, moves] :
       std::vector<std::pair<std::string, std::vector<bool>>>{{"gain", {false, true, true}},
                                                              {"out/W.bias", {true, false, true}},
                                                              {"out/W", {true, false, false}},
                                                              {"out", {true, false, false}}}) {
    SCOPED_TRACE(name);
    Net model;
    const Tensors before = params_of(model);
    Adam optimizer(model, 0.1, {}, {.weight_decay = 0.1, .frozen = {name}});
    optimizer.update(gradients(model, 1));
    const Tensors after = params_of(model);
    for (std::size_t i = 0; i < moves.size(); ++i) EXPECT_EQ(!(after[i] == before[i]), moves[i]) << i;
    const auto frozen = static_cast<std::size_t>(std::count(moves.begin(), moves.end(), false));
    EXPECT_EQ(optimizer.state().size(), 1 + 2 * (3 - frozen));
  }
  for (const char* wrong : {"ou", "out/W.weigh", "", "gain/x"})
    EXPECT_THAT(
        message_of<ValueError>([&] {
          Net model;
          SGD optimizer(model, 0.1, {}, {.frozen = {wrong}});
        }),
        AllOf(HasSubstr("names no parameter"), HasSubstr("there are: gain, out/W.bias, out/W.weight")));
}

TEST(Optimizer, OnlyFloatingParametersAreTrained) {
  const Arrays params{zeros({2}, Dtype::I32), zeros({2})};
  EXPECT_THAT(message_of<TypeError>([&] { SGD(0.1).init(params); }),
              AllOf(HasSubstr("i32[2]"), HasSubstr("frozen")));
  const SGD rule(0.1, {}, {.frozen = {"0"}});
  const Updated out = rule.apply(params, Arrays{Array(), ones({2})}, rule.init(params));
  EXPECT_EQ(out.params[0].dtype(), Dtype::I32);
}

TEST(Optimizer, SixteenBitsAreUpdatedInSinglePrecision) {
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
    const Arrays params{ones({2}, dtype)}, grads{full({2}, 0.25, dtype)};
    const SGD rule(0.5, {.momentum = 0.9});
    const Updated out = rule.apply(params, grads, rule.init(params));
    EXPECT_EQ(out.params[0].dtype(), dtype);
    EXPECT_EQ(out.state[1].dtype(), Dtype::F32);
    EXPECT_EQ(values(out.params[0]), (std::vector<double>{0.875, 0.875}));
  }
}

// Constraints -----------------------------------------------------------------------------------------------
TEST(Constraints, OneStep) {
  const Arrays params{vec({1, -1, 0.5, 0}, Dtype::F64)}, grads{vec({3, -3, 0, 1}, Dtype::F64)};
  const auto with = [&](Constraint c) {
    return values(step_of(SGD(1.0, {}, {.constraints = {std::move(c)}}), params, grads)[0]);
  };
  EXPECT_EQ(with(non_negative("0")), (std::vector<double>{0, 2, 0.5, 0}));
  EXPECT_EQ(with(non_positive("0")), (std::vector<double>{-2, 0, 0, -1}));
  EXPECT_EQ(with(keep_sign("0")), (std::vector<double>{0, 0, 0.5, -1}));  // an initial zero is free
  EXPECT_EQ(with(keep_sign("0", vec({-5, 1, 1, 1}))), (std::vector<double>{-2, 2, 0.5, 0}));
  EXPECT_EQ(with(fixed_mask("0", vec({1, 0, 0, 1}))), (std::vector<double>{-2, 0, 0, -1}));
}

TEST(Constraints, SignsOfRowsBroadcast) {
  Net model;
  SGD optimizer(model, 1.0, {}, {.constraints = {keep_sign("out/W.weight", array({1, -1, 1}, {3, 1}))}});
  ParamValues grads = param_values(model);
  for (Array& v : grads.values) v = zeros_like(v);
  optimizer.update(grads);
  EXPECT_EQ(values(model.out.W.value("weight")), (std::vector<double>{1, 0, 0, -4, 0, 6}));
}

TEST(Constraints, DalesLawHoldsOverManySteps) {
  for (const Entry& entry : all()) {
    SCOPED_TRACE(entry.name);
    Random random(4);
    const auto rule = make(entry.name, {.learning_rate = 0.3, .common = {.constraints = {keep_sign("0")}}});
    const Array start = random.f64({6, 5});
    Arrays params{start}, state = rule->init(params);
    const std::vector<double> signs = values(sign(start));
    int touched = 0;
    for (int step = 0; step < 60; ++step) {
      Updated out = rule->apply(params, Arrays{random.f64({6, 5})}, state);
      params = std::move(out.params);
      state = std::move(out.state);
      const std::vector<double> now = values(params[0]);
      for (std::size_t k = 0; k < now.size(); ++k) {
        EXPECT_GE(now[k] * signs[k], 0.0) << "step " << step << ", element " << k;
        touched += now[k] == 0.0 ? 1 : 0;
      }
    }
    EXPECT_GT(touched, 0);  // the constraint had work to do
  }
}

TEST(Constraints, MaskHoldsOverManySteps) {
  Random random(4);
  const Array mask = convert(random.f64({6, 5}) > 0.0, Dtype::Bool);
  const AdamW rule(0.1, {}, {.constraints = {fixed_mask("0", mask), non_negative("0")}});
  const std::vector<double> kept = values(mask);
  Arrays params{random.f64({6, 5})}, state = rule.init(params);
  for (int step = 0; step < 20; ++step) {
    Updated out = rule.apply(params, Arrays{random.f64({6, 5})}, state);
    params = std::move(out.params);
    state = std::move(out.state);
    const std::vector<double> now = values(params[0]), m = values(state[1]);
    for (std::size_t k = 0; k < now.size(); ++k) {
      EXPECT_GE(now[k], 0.0);
      EXPECT_TRUE(kept[k] != 0.0 || (now[k] == 0.0 && m[k] == 0.0)) << k;
    }
  }
}

// A gradient that is not a number behind a mask stays there.
TEST(Constraints, MaskStopsNan) {
  const Arrays params{vec({1, 1}, Dtype::F64)}, grads{vec({std::nan(""), 1}, Dtype::F64)};
  const SGD rule(0.5, {}, {.clip_norm = 10.0, .constraints = {fixed_mask("0", vec({0, 1}))}});
  EXPECT_EQ(values(step_of(rule, params, grads)[0]), (std::vector<double>{0, 0.5}));
}

TEST(Constraints, Refusals) {
  const Arrays params{zeros({3, 2})};
  const auto refused = [&](Constraint c) {
    return [&params, c] { SGD(0.1, {}, {.constraints = {c}}).init(params); };
  };
  EXPECT_THAT(message_of<ValueError>(refused(non_negative("1"))), HasSubstr("a constraint on '1' names no"));
  EXPECT_THAT(message_of<ValueError>(refused(fixed_mask("0", ones({3})))),
              AllOf(HasSubstr("a mask of shape [3]"), HasSubstr("[3,2]")));
  EXPECT_THAT(message_of<ValueError>(refused(keep_sign("0", ones({4, 3, 2})))),
              HasSubstr("signs of shape [4,3,2] for 0 of shape [3,2]"));
  EXPECT_THAT(message_of<ValueError>(refused(fixed_mask("0", Array()))), HasSubstr("undefined"));
}

// State -----------------------------------------------------------------------------------------------------
TEST(OptimizerState, NamesFollowTheLeaves) {
  Net model;
  const Adam optimizer(model, 0.1, {},
                       {.frozen = {"out/W.bias"}, .constraints = {keep_sign("out/W.weight")}});
  EXPECT_THAT(
      optimizer.state_names(param_leaf_ids(model)),
      ElementsAre("step", "gain/m", "gain/v", "out/W.weight/m", "out/W.weight/v", "out/W.weight/sign"));
  const auto state = optimizer.state();
  EXPECT_EQ(state[0].second, Array(Tensor::zeros({Dtype::I32, {}})).tensor());
  EXPECT_EQ(state[5].second.to_doubles(), (std::vector<double>{1, -1, 1, -1, 0, 1}));
  EXPECT_THAT(SGD(0.1).state_names(param_leaf_ids(model)), ElementsAre("step"));
}

TEST(OptimizerState, RestoredItContinuesBitForBit) {
  for (const Entry& entry : all()) {
    SCOPED_TRACE(entry.name);
    const MakeOptions options{.learning_rate = schedule::cosine(0.1, 8, 2),
                              .common = {.clip_norm = 0.7, .constraints = {keep_sign("out")}}};
    Net whole, resumed;
    const auto first = make(entry.name, options), second = make(entry.name, options);
    first->bind(whole);
    for (std::uint64_t step = 0; step < 3; ++step) first->update(gradients(whole, step));
    auto saved = first->state();
    std::reverse(saved.begin(), saved.end());  // any order
    set_param_values(resumed, param_values(whole));
    second->bind(resumed);
    second->set_state(saved);
    EXPECT_EQ(second->step(), 3);
    for (std::uint64_t step = 3; step < 6; ++step) {
      first->update(gradients(whole, step));
      second->update(gradients(resumed, step));
    }
    EXPECT_EQ(params_of(whole), params_of(resumed));
    EXPECT_EQ(first->state(), second->state());
  }
}

TEST(OptimizerState, RefusesAnotherOne) {
  Net model;
  Adam optimizer(model, 0.1);
  optimizer.update(gradients(model, 1));
  const auto good = optimizer.state();
  const auto refused = [&](auto change) {
    auto state = good;
    change(state);
    return message_of<ValueError>([&] { optimizer.set_state(state); });
  };
  EXPECT_THAT(refused([](auto& s) { s.erase(s.begin() + 2); }), HasSubstr("gain/v is missing"));
  EXPECT_THAT(refused([](auto& s) { s[1].first = "gain/momentum"; }),
              AllOf(HasSubstr("gain/momentum is unknown"), HasSubstr("gain/m is missing")));
  EXPECT_THAT(refused([](auto& s) {
                s[6].second = zeros({2, 3}, Dtype::F64).tensor();
              }),
              HasSubstr("out/W.weight/v is f64[2,3], expected f64[3,2]"));
  EXPECT_THAT(refused([](auto& s) { s[2] = s[1]; }), HasSubstr("gain/m is given twice"));
  EXPECT_THAT(refused([](auto& s) { s[1].second = {}; }), HasSubstr("gain/m is undefined"));
  EXPECT_THAT(refused([](auto& s) {
                s[0].second = Tensor::full({Dtype::I32, {}}, std::int64_t{-1});
              }),
              HasSubstr("step is negative"));
  EXPECT_EQ(optimizer.state(), good);

  const Arrays params{zeros({2})};
  EXPECT_THAT(message_of<ValueError>([&] { Adam(0.1).apply(params, params, SGD(0.1).init(params)); }),
              HasSubstr("1 arrays of state"));
  Arrays wrong = Adam(0.1).init(params);
  wrong[2] = zeros({3});
  EXPECT_THAT(message_of<ValueError>([&] { Adam(0.1).apply(params, params, wrong); }),
              HasSubstr("state 0/v is f32[3]; expected f32[2]"));
  EXPECT_THAT(message_of<ValueError>([&] { optimizer.init(params); }), HasSubstr("1 parameters; expected 3"));
  EXPECT_THAT(message_of<ValueError>([&] { Adam(0.1).apply(params, {}, Adam(0.1).init(params)); }),
              HasSubstr("0 gradients; expected 1"));
}

TEST(OptimizerState, TheCountStopsAtItsLargestValue) {
  const Adam rule(0.1);
  const Arrays params{zeros({1})};
  Arrays state = rule.init(params);
  const std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  state[0] = full({}, largest - 1, Dtype::I32);
  for (int i = 0; i < 2; ++i) {
    const Updated out = rule.apply(params, Arrays{ones({1})}, state);
    EXPECT_EQ(out.state[0].item<std::int64_t>(), largest);
    EXPECT_TRUE(std::isfinite(values(out.params[0])[0]));
    state = out.state;
  }
}

TEST(OptimizerState, TheParametersOutliveTheirModel) {
  auto model = std::make_unique<Net>();
  SGD optimizer(*model, 0.1);
  const ParamValues grads = gradients(*model, 1);
  model.reset();
  optimizer.update(grads);
  EXPECT_EQ(optimizer.step(), 1);
}

}  // namespace
}  // namespace etrace::optim
