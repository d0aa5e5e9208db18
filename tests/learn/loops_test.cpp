// Learning through loops inside a step: traced inside, unrolled, and repeated until something holds.
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

constexpr std::int64_t kInner = 8;

CompileOptions unrolling(std::int64_t limit) {
  CompileOptions o;
  o.control_flow.scan_unroll_limit = limit;
  return o;
}

// kInner sub-steps h ← 0.9 sin(h) + 0.3 tanh(x_i·w + b)
Model inner_loop_model() {
  return step_model(
      {arg("x", {kInner, 3}), hidden("h", {4}), param("b", {4}), param("w", {3, 4})}, [](In& in) {
        in.set("h", scan(
                        [&](ArraySpan c, ArraySpan x) -> ScanResult {
                          return {{0.9 * sin(c[0]) + 0.3 * tanh(matmul(x[0], in["w"], in["b"]))}, {}};
                        },
                        {in["h"]}, {in["x"]})
                        .carry[0]);
        return in["h"];
      });
}

Model inner_two_state_model() {
  return step_model(
      {arg("x", {kInner, 3}), hidden("v", {4}), hidden("a", {4}), param("w", {3, 4})}, [](In& in) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan x) -> ScanResult {
              return {
                  {0.8 * c[0] + 0.3 * tanh(matmul(x[0], in["w"])) - 0.1 * c[1], 0.9 * c[1] + 0.1 * sin(c[0])},
                  {}};
            },
            {in["v"], in["a"]}, {in["x"]});
        in.set("v", r.carry[0]);
        in.set("a", r.carry[1]);
        return in["v"];
      });
}

TEST(InnerLoops, L109_L110_Exact) {
  for (const Model& m : {inner_loop_model(), inner_two_state_model()}) {
    const Sequence data = draw_sequence(m, 6);
    const ParamValues expected = bptt(m, data).grads;
    for (const std::int64_t limit : {2, 64}) {  // traced inside, written out
      SCOPED_TRACE("unrolled up to " + std::to_string(limit));
      for (const std::int64_t window : {1, 3}) {
        Learner windows = make_learner(m, InWindows(D_RTRL()), unrolling(limit));
        EXPECT_EQ(windows.graph().hidden_groups[0].descent.has_value(), limit == 2);
        expect_gradients(online(windows, data, window), expected, 1e-10);
        Learner steps = make_learner(m, D_RTRL(), unrolling(limit), window);
        expect_gradients(online(steps, data), expected, 1e-10);
        Learner wrong = make_learner(m, ForgetfulRule(ForgetfulRule::Jacobian), unrolling(limit), window);
        EXPECT_GT(largest_deviation(online(wrong, data), expected), 1e-6);
      }
    }
  }
}

TEST(InnerLoops, L109_SameTracesAsUnrolled) {
  const Model m = inner_loop_model();
  Sequence data = draw_sequence(m, 5);
  data.weights = array({1, 0, 0.5, 0, 1}, Dtype::F64);
  for (const bool freeze : {false, true}) {
    Learner inside = make_learner(m, D_RTRL(), unrolling(2), 3);
    Learner single = make_learner(m, D_RTRL(), unrolling(2), 1);
    expect_gradients(online(inside, data, 0, freeze), online(single, data, 0, freeze), 1e-12);
    expect_same(traces_of(inside), traces_of(single));
  }
  // Written out there is one relation per sub-step, whose traces add up to the one of the loop.
  Learner inside = make_learner(m, D_RTRL(), unrolling(2)),
          written = make_learner(m, D_RTRL(), unrolling(64));
  data.weights = {};
  online(inside, data);
  online(written, data);
  Array total;
  for (const EligibilityTrace& t : written.get_etrace_of("w"))
    total = total.defined() ? total + t.value : t.value;
  EXPECT_LE(relative_deviation(inside.get_etrace_of("w")[0].value, total), 1e-12);
}

TEST(InnerLoops, L111_RulesThatNeedOneStep) {
  const Model m = inner_loop_model();
  expect_error<NotSupportedError>("lives inside a loop",
                                  [&] { make_learner(m, *factorised(0.9), unrolling(2)); });
  expect_error<NotSupportedError>("recurrent products",
                                  [&] { make_learner(m, OSTLRecurrent(), unrolling(2)); });
  EXPECT_NO_THROW(make_learner(m, *factorised(0.9), unrolling(64)));
}

// Until it has settled: three rounds of relaxation, as a while loop and written out.
Model settling_model(bool loop) {
  return step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [=](In& in) {
    const Array drive = matmul(in["x"], in["w"]) + 0.8 * in["h"];
    const auto round = [&](const Array& s) { return s + 0.5 * tanh(drive - s); };
    if (loop) {
      in.set("h", while_loop([](ArraySpan c) { return c[1] < 3; },
                             [&](ArraySpan c) {
                               return Arrays{round(c[0]), c[1] + Array(1)};
                             },
                             {in["h"], full({}, std::int64_t{0}, Dtype::I32)})[0]);
    } else {
      in.set("h", round(round(round(in["h"]))));
    }
    return in["h"];
  });
}
TEST(WhileLoops, L112_LikeWrittenOut) {
  const Model loop = settling_model(true), written = settling_model(false);
  const Sequence data = draw_sequence(loop, 5);
  const ParamValues expected = bptt(written, data).grads;
  expect_gradients(gradients_of(written, D_RTRL(), data), expected, 1e-10);
  expect_gradients(gradients_of(loop, D_RTRL(), data), expected, 1e-10);
  expect_gradients(gradients_of(loop, InWindows(D_RTRL()), data, 2), expected, 1e-10);
}

// Under compat what leads into a while loop is detached, in the records and in what the learner
// differentiates: the learner is the executor on the compiler's perturbed program, and nothing is counted
// twice.
TEST(InnerLoops, CompatDetachesWhatLeadsIntoAWhile) {
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
    const Array y = matmul(in["x"], in["w"]);
    in.set("h", while_loop([](ArraySpan c) { return c[1] < 3; },
                           [&](ArraySpan c) {
                             return Arrays{0.5 * c[0] + y, c[1] + 1};
                           },
                           {in["h"], Array(0)})[0]);
    return in["h"];
  });
  const Sequence data = draw_sequence(m, 4);
  Learner ours = make_learner(m, D_RTRL()), reference = make_learner(m, D_RTRL(), Compat::Braintrace);
  const ParamValues exact = online(ours, data), theirs = online(reference, data);
  EXPECT_LE(largest_deviation(exact, bptt(m, data).grads), 1e-9);
  EXPECT_GT(norm(theirs.values[0]), 1e-8);
  EXPECT_GT(relative_deviation(theirs.values[0], 2.0 * exact.values[0]), 1e-2) << "twice the gradient";
}

}  // namespace
}  // namespace etrace
