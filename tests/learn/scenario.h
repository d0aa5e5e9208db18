// Small recurrent models that the scenario tests of learning share. Numbers in test names (L8) count the
// scenarios of learning.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "support/functions.h"
#include "support/learning.h"
#include "support/learning_models.h"
#include "support/values.h"

namespace etrace::testing {

inline std::shared_ptr<const LearningRule> factorised(DecayOrRank decay,
                                                      VjpMethod method = VjpMethod::SingleStep) {
  const pp_prop rule(IODimOptions{.decay_or_rank = decay});
  return method == VjpMethod::SingleStep ? rule.clone() : std::make_shared<InWindows>(rule);
}

// h ← tanh(x·win + h·w), both through operators.
inline Model tanh_rnn(std::optional<std::int64_t> batch = std::nullopt, Dtype dtype = Dtype::F64,
                      std::uint64_t seed = 1) {
  const auto shape = [&](std::int64_t n) { return batch ? Shape{*batch, n} : Shape{n}; };
  return step_model(
      in_type(dtype, {arg("x", shape(3)), hidden("h", shape(4)), param("w", {4, 4}), param("win", {3, 4})}),
      [](In& in) {
        in.set("h", tanh(matmul(in["x"], in["win"]) + matmul(in["h"], in["w"])));
        return in["h"];
      },
      seed);
}

// The recurrent weight alone is learned online; input and readout are plain.
inline Model plain_and_traced() {
  return step_model(
      {arg("x", {3}), hidden("h", {4}), param("out", {4, 2}), param("w", {4, 4}), param("win", {3, 4})},
      [](In& in) {
        in.set("h", tanh(matmul_plain(in["x"], in["win"]) + matmul(in["h"], in["w"])));
        return matmul_plain(in["h"], in["out"]);
      });
}

// h ← 0.9 h + x·w
inline Model leaky_linear() {
  return step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
    in.set("h", 0.9 * in["h"] + matmul(in["x"], in["w"]));
    return in["h"];
  });
}

// v ← .9 v + x·w − .1 a;  a ← .95 a + v, of the old values
inline Model two_state() {
  return step_model({arg("x", {3}), hidden("v", {3}), hidden("a", {3}), param("w", {3, 3})}, [](In& in) {
    const Array v = 0.9 * in["v"] + matmul(in["x"], in["w"]) - 0.1 * in["a"], a = 0.95 * in["a"] + in["v"];
    in.set("v", v);
    in.set("a", a);
    return v;
  });
}

// The same with tanh, as a module.
struct LeakyNet : Module {
  ParamState& w = param("w", random::normal(random::key(1), {3, 4}, Dtype::F64));
  HiddenState& v = hidden("v", {4}, Dtype::F64);
  Array update(const Array& x) override {
    const Array kept = 0.9 * v.value();
    v.set(kept + tanh(matmul(x, w.value())));
    return v.value();
  }
};

inline ParamValues gradients_of(const Model& m, const LearningRule& rule, const Sequence& data,
                                std::int64_t window = 0, Compat compat = Compat::None) {
  Learner learner = make_learner(m, rule, compat);
  return online(learner, data, window);
}

}  // namespace etrace::testing
