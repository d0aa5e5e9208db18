// What no trace carries: parameters outside of every relation, direct ways from a traced parameter to the
// loss, and losses that read a state before it is renewed.
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// Σ over windows of the gradient inside each, from the states that the sequence has there: what remains when
// nothing is remembered.
ParamValues inside_windows(const Model& m, const Sequence& data, std::int64_t window) {
  const Arrays params = initial_params(m).values;
  Arrays states = initial_states(m);
  ParamValues total;
  for (std::int64_t t = 0; t < data.length(); t += window) {
    const Bptt here = bptt(m, data.part(t, std::min(t + window, data.length())), params, states);
    total = total.leaves.empty() ? here.grads : sum_of(total, here.grads);
    states = here.states;
  }
  return total;
}

TEST(Untraced, L91_PlainWeightsLearnFromTheirOwnStep) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 6);
  const std::vector<std::string> plain{"out", "win"};
  for (const auto& rule :
       {std::shared_ptr<const LearningRule>(std::make_shared<D_RTRL>()), factorised(0.9)}) {
    expect_gradients(gradients_of(m, *rule, data), inside_windows(m, data, 1), 1e-12, plain);
    const ParamValues compat = gradients_of(m, *rule, data, 0, Compat::Braintrace);
    for (const std::string& name : plain) EXPECT_EQ(norm(compat.at(name)), 0.0) << name;
  }
  // A readout acts at its own step alone, so this is all of it.
  expect_gradients(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, 1e-12, {"out"});
}

TEST(Untraced, L91_PlainWeightsInWindows) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 6);
  for (const std::int64_t window : {1, 2, 3}) {
    const ParamValues found = gradients_of(m, InWindows(D_RTRL()), data, window);
    expect_gradients(found, inside_windows(m, data, window), 1e-12, {"out", "win"});
    EXPECT_GT(largest_deviation(found, inside_windows(m, data, window), {"w"}), 1e-6);
  }
}

// An operator that feeds no state, and one that reaches it through another operator only.
TEST(Untraced, OperatorsOutsideOfEveryRelation) {
  const Model m = step_model(
      {arg("x", {3}), hidden("h", {4}), param("inner", {3, 3}), param("out", {4, 2}), param("w", {3, 4})},
      [](In& in) {
        in.set("h", 0.8 * in["h"] + matmul(tanh(matmul(in["x"], in["inner"])), in["w"]));
        return matmul(in["h"], in["out"]);
      });
  const Sequence data = draw_sequence(m, 6);
  const ParamValues found = gradients_of(m, D_RTRL(), data);
  expect_gradients(found, bptt(m, data).grads, 1e-10, {"out", "w"});
  expect_gradients(found, inside_windows(m, data, 1), 1e-12, {"inner"});
}

// Direct ways: with the trace they add up to everything.
TEST(Untraced, TracedWeightThatAlsoActsDirectly) {
  const auto model = [](const std::function<Array(const In&, const Array& y)>& result) {
    return step_model({arg("x", {4}), hidden("h", {4}), param("w", {4, 4})}, [&](In& in) {
      const Array y = matmul(in["x"], in["w"]);
      in.set("h", 0.8 * in["h"] + tanh(y));
      return result(in, y);
    });
  };
  const Model skip = model([](const In&in, const Array&y) { return in["h"] + sin(y); }),
              tied = model([](const In&in, const Array&) { return matmul(in["h"], transpose(in["w"])); }),
              plain = model([](const In&in, const Array&) { return matmul_plain(in["h"], in["w"]); });
  for (const Model& m : {skip, tied, plain}) {
    const Sequence data = draw_sequence(m, 6);
    expect_gradients(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, 1e-10);
    expect_gradients(gradients_of(m, InWindows(D_RTRL()), data, 2), bptt(m, data).grads, 1e-10);
  }
}

// A result of the state before the step, and of what becomes a part of the state.
TEST(Untraced, LossesThatBypassTheNewState) {
  const Model before = step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
    const Array old = in["h"];
    in.set("h", 0.8 * old + tanh(matmul(in["x"], in["w"])));
    return sin(old);
  });
  const Model both = step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
    const Array old = in["h"];
    in.set("h", 0.8 * old + tanh(matmul(in["x"], in["w"])));
    return in["h"] * old;
  });
  const Model piece =
      step_model({arg("x", {3}), hidden("s", {4, 2}, "HiddenGroupState"), param("w", {3, 4})}, [](In& in) {
        const Array v = squeeze(slice_axis(in["s"], 1, 0, 1), {1}),
                    a = squeeze(slice_axis(in["s"], 1, 1, 2), {1});
        const Array next = 0.7 * v + tanh(matmul(in["x"], in["w"])) - 0.2 * a;
        in.set("s", stack(Arrays{next, 0.9 * a + 0.2 * v}, 1));
        return next;
      });
  for (const Model& m : {before, both, piece}) {
    const Sequence data = draw_sequence(m, 6);
    for (const std::int64_t window : {1, 4}) {
      Learner learner = make_learner(m, D_RTRL(), Compat::None, window);
      expect_gradients(online(learner, data), bptt(m, data).grads, 1e-10);
    }
    expect_gradients(gradients_of(m, InWindows(D_RTRL()), data, 2), bptt(m, data).grads, 1e-10);
    // The factorised rule approximates, but steps and windows agree.
    Learner steps = make_learner(m, *factorised(0.8), Compat::None, 1),
            window = make_learner(m, *factorised(0.8), Compat::None, 4);
    expect_gradients(online(window, data), online(steps, data), 1e-12);
  }
}

}  // namespace
}  // namespace etrace
