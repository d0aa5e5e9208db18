// UORO: the mean over its signs is RTRL; the carrier is small; a key is a stream.
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// Two units from a state that is not zero; the recurrent weight alone is learned online.
Model two_units() {
  Model m =
      step_model({arg("x", {2}), hidden("h", {2}), param("w", {2, 2}), param("win", {2, 2})}, [](In& in) {
        in.set("h", tanh(matmul_plain(in["x"], in["win"]) + matmul(in["h"], in["w"])));
        return in["h"];
      });
  set_initial(m, "h", array({0.4, 0.4}, Dtype::F64));
  return m;
}

// The signs of every step, as a table [steps, elements]; the same for every group.
ProjectionDraw from_table(std::vector<double> signs, std::int64_t steps) {
  const auto wide = static_cast<std::int64_t>(signs.size()) / steps;
  const Array table(Tensor::of(signs, {steps, wide}));
  return [table, steps](const Array&, const Array& step, std::size_t, const Shape& shape, Dtype dtype) {
    const Array now = minimum(step, Array(Tensor::full({Dtype::I32, {}}, steps - 1)));
    return convert(reshape(take(table, now, 0), shape.to_dims()), dtype);
  };
}

std::vector<double> pattern(unsigned bits, std::size_t count) {
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back((bits >> i) & 1U ? 1.0 : -1.0);
  return out;
}

// Steps before the last boundary: two, of two signs each.
TEST(Uoro, L78_L79_MeanOverAllSignsIsReverseMode) {
  const Model m = two_units();
  const Sequence data = draw_sequence(m, 3);
  const ParamValues expected = bptt(m, data).grads;
  ParamValues total;
  double farthest = 0.0;
  for (unsigned bits = 0; bits < 16; ++bits) {
    const InWindows rule{UORO({.draw = from_table(pattern(bits, 4), 2)})};
    const ParamValues one = gradients_of(m, rule, data, 1);
    farthest = std::max(farthest, largest_deviation(one, expected, {"w"}));
    total = bits == 0 ? one : sum_of(total, one);
  }
  for (Array& g : total.values) g = g / 16.0;
  expect_gradients(total, expected, 1e-12, {"w"});
  expect_gradients(total, gradients_of(m, InWindows(SnAp()), data, 1), 1e-12, {"w"});
  EXPECT_GT(farthest, 1e-4) << "single patterns are noisy";
}

// L80: the factors after one step, by hand. s̃ = ρ1·ν and θ̃ = p/ρ1 with ρ1 = √(‖p‖/‖ν‖).
TEST(Uoro, L80_FactorsByHand) {
  const Model m = two_units();
  const Sequence data = draw_sequence(m, 1);
  Learner learner = make_learner(m, UORO({.draw = from_table({1.0, -1.0}, 1)}));
  learner(item(data.args[0], 0));
  const Array h = learner.state("h"), slope = 1.0 - square(h), before = array({0.4, 0.4}, Dtype::F64);
  const Array nu = array({1.0, -1.0}, Dtype::F64);
  const Array p = reshape(before, {2, 1}) * reshape(nu * slope, {1, 2});
  const double rho = std::sqrt(norm(p) / norm(nu));
  const std::vector<EligibilityTrace> traces = learner.get_etrace_of("w");
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_LE(relative_deviation(reshape(traces[0].value, {2}), rho * nu), 1e-9);
  EXPECT_LE(relative_deviation(traces[1].value, p / rho), 1e-9);
}

// L81, L82: one weight at two places, two groups with draws of their own.
TEST(Uoro, L81_L82_TiedWeightInTwoGroups) {
  const Model m =
      step_model({arg("x", {1}), hidden("h", {1}), hidden("k", {1}), param("w", {1, 1})}, [](In& in) {
        in.set("h", tanh(0.8 * in["h"] + matmul(in["x"], in["w"])));
        in.set("k", sin(0.6 * in["k"] + matmul(in["x"] * 0.5, in["w"])));
        return in["h"] * in["k"];
      });
  const Sequence data = draw_sequence(m, 3);
  ParamValues total;
  for (unsigned bits = 0; bits < 16; ++bits) {
    // [step, group]
    const Array table(Tensor::of(pattern(bits, 4), {2, 2}));
    const ProjectionDraw draw = [table](const Array&, const Array& step, std::size_t group,
                                        const Shape& shape, Dtype) {
      const Array now = take(table, minimum(step, Array(Tensor::full({Dtype::I32, {}}, std::int64_t{1}))), 0);
      const auto g = static_cast<std::int64_t>(group);
      return reshape(slice_axis(now, 0, g, g + 1), shape.to_dims());
    };
    const ParamValues one = gradients_of(m, InWindows(UORO({.draw = draw})), data, 1);
    total = bits == 0 ? one : sum_of(total, one);
  }
  total.values[0] = total.values[0] / 16.0;
  expect_gradients(total, bptt(m, data).grads, 1e-12);
}

// L83: over seeds the mean lies within its error of the truth, and that error is small enough to tell.
TEST(Uoro, L83_UnbiasedOverSeeds) {
  const Model m = two_units();
  const Sequence data = draw_sequence(m, 3);
  const Array expected = bptt(m, data).grads.at("w");
  const Array direction = expected / norm(expected);
  constexpr int kSeeds = 64;
  double sum_of_all = 0.0, squares = 0.0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Array g = gradients_of(m, InWindows(UORO({.projection_key = seed})), data, 1).at("w");
    const double along = sum(g * direction).item<double>();
    sum_of_all += along;
    squares += along * along;
  }
  const double mean = sum_of_all / kSeeds, deviation = std::sqrt(squares / kSeeds - mean * mean),
               error = deviation / std::sqrt(kSeeds), truth = norm(expected);
  EXPECT_LE(std::abs(mean - truth), 3.5 * error);
  EXPECT_LE(error, 0.25 * truth);
  EXPECT_GT(deviation, 1e-6);
}

TEST(Uoro, L84_TheCarrier) {
  const Model m = plain_and_traced();
  Learner learner = make_learner(m, UORO());
  EXPECT_EQ(learner.trace_bytes(), 20 * 8);
}

TEST(Uoro, L85_AKeyIsAStream) {
  const Model m = two_units();
  const Sequence data = draw_sequence(m, 4);
  Learner learner = make_learner(m, UORO());
  const ParamValues first = online(learner, data);
  learner.reset_state();
  learner.reset_model_state();
  EXPECT_EQ(largest_deviation(online(learner, data), first, {"w"}), 0.0);
  EXPECT_GT(largest_deviation(gradients_of(m, UORO({.projection_key = 7}), data), first, {"w"}), 1e-6);
}

// (Models do not compute in 16 bits, which are for storage.)
TEST(Uoro, L86_TypesStay) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
    const Model m = tanh_rnn(std::nullopt, dtype);
    const Sequence data = draw_sequence(m, 4);
    for (const Array& g : gradients_of(m, InWindows(UORO()), data, 2).values) {
      EXPECT_EQ(g.dtype(), dtype);
      EXPECT_TRUE(std::isfinite(norm(g)));
    }
  }
}

// Nothing as large as (positions·states)² is in the program.
TEST(Uoro, NoDenseJacobian) {
  constexpr std::int64_t kWide = 24;
  const Model m = step_model({arg("x", {3}), hidden("h", {kWide}), param("w", {3, kWide}),
                              param("u", {kWide, 2}), param("v", {2, kWide})},
                             [](In& in) {
                               const Array back = matmul_plain(matmul_plain(in["h"], in["u"]), in["v"]);
                               in.set("h", tanh(matmul(in["x"], in["w"]) + back));
                               return in["h"];
                             });
  Learner learner = make_learner(m, UORO(), Compat::None, 4);
  const Avals slices{{Dtype::F64, {3}}, {Dtype::F64, {kWide}}};
  const LearnerPlan plan = learner.plan(squared_error(), slices);
  for (const Program& p : plan.programs)
    for (const Eqn& eqn : p.jaxpr.jaxpr.eqns)
      for (const Var& v : eqn.out)
        EXPECT_LT(v.aval.shape.size(), kWide * kWide) << p.name << ": " << eqn.prim->name();
}

TEST(Uoro, L111_LoopsThatAreTracedInside) {
  const Model m = step_model({arg("x", {3}), hidden("h", {3}), param("w", {3, 3})}, [](In& in) {
    const Array x = in["x"], w = in["w"];
    const ScanResult r = scan(
        [&](ArraySpan c, ArraySpan) -> ScanResult {
          return {{tanh(0.9 * c[0] + matmul(x + c[0], w))}, {}};
        },
        {in["h"]}, {}, {.length = 20});
    in.set("h", r.carry[0]);
    return in["h"];
  });
  for (const std::string rule : {"UORO", "pp_prop", "OSTLRecurrent", "SnAp"})
    expect_error<NotSupportedError>("lives inside a loop", [&] { make_learner(m, *make_rule(rule)); });
}

}  // namespace
}  // namespace etrace
