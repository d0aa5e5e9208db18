// Conformance vectors: two models of which the gradients of several rules are published. The first table
// holds float32 results of the reference system, the second one double-precision values of the same
// equations.
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "support/learning.h"
#include "support/learning_models.h"

namespace etrace {
namespace {

using namespace testing;

const std::vector<double> kW{0.162264213,  0.20252648,    -0.0433594361, -0.0078617353,
                             0.0176090915, -0.097208932,  -0.0495298728, 0.0494378582,
                             0.0664349273, -0.0950163528, 0.217953041,   -0.195515066,
                             0.0358570665, 0.0157795139,  0.127708465,   0.151046485};
const std::vector<double> kWin{-0.0154437181, 0.00847072806, -0.0135980491, -0.0155036272,
                               0.126666725,   0.0148297595,  0.214156032,   0.100267425,
                               -0.0290335864, 0.0358344764,  -0.0707927346, -0.0245555267};
const std::vector<double> kX{1.76405239,  0.400157213, 0.97873801,  2.24089313,  1.867558,    0.977277875,
                             0.950088441, 0.151357204, 0.103218853, 0.410598516, 0.144043565, 1.45427346,
                             0.761037707, 0.121675014, 0.443863243, 0.333674341, 1.49407911,  0.205158263,
                             0.313067704, 0.854095757, 2.55298972,  0.653618574, 0.864436209, 0.742165029};

// h ← tanh(x·win + h·w); w through the operator, win plain.
Model tanh_model(Dtype dtype) {
  Model m = step_model(
      in_type(dtype, {arg("x", {1, 3}), hidden("h", {1, 4}), param("w", {4, 4}), param("win", {3, 4})}),
      [](In& in) {
        in.set("h", tanh(matmul_plain(in["x"], in["win"]) + matmul(in["h"], in["w"])));
        return in["h"];
      });
  set_initial(m, "w", array(kW, Dtype::F64));
  set_initial(m, "win", array(kWin, Dtype::F64));
  set_initial(m, "h", zeros({4}));
  return m;
}

// v ← .9 v + x·w − .1 a;  a ← .95 a + v, of the old values
Model two_state_model(Dtype dtype) {
  Model m = step_model(
      in_type(dtype, {arg("x", {1, 3}), hidden("v", {1, 3}), hidden("a", {1, 3}), param("w", {3, 3})}),
      [](In& in) {
        const Array v = 0.9 * in["v"] + matmul(in["x"], in["w"]) - 0.1 * in["a"],
                    a = 0.95 * in["a"] + in["v"];
        in.set("v", v);
        in.set("a", a);
        return v;
      });
  set_initial(m, "w", array(std::vector<double>(kW.begin(), kW.begin() + 9), Dtype::F64));
  set_initial(m, "v", zeros({3}));
  set_initial(m, "a", zeros({3}));
  return m;
}

// The published numbers: first row and norm of one gradient. Where the reference is known to be wrong
// (corrections that count calls, no gradient without a trace), they need compat.
struct PublishedGradient {
  std::string name, model, rule, leaf;
  std::int64_t window;  // 0: single steps
  Compat compat;
  std::vector<double> row;
  double norm;
  Dtype dtype = Dtype::F32;
};

void PrintTo(const PublishedGradient& v, std::ostream* os) { *os << v.name; }

constexpr Compat kNone = Compat::None, kCompat = Compat::Braintrace;

std::vector<PublishedGradient> published_gradients() {
  const Dtype f64 = Dtype::F64;
  const std::vector<double> two_state{16.18152, 30.12799, -6.870138},
      two_state_f64{16.181519, 30.127989, -6.8701383};
  return {
      {"tanh_d_rtrl_m2",
       "tanh",
       "d_rtrl",
       "w",
       2,
       kNone,
       {0.06222948, 0.05181846, 0.05309258, -0.0189377},
       0.2178387},
      {"tanh_d_rtrl_m2_win",
       "tanh",
       "d_rtrl",
       "win",
       2,
       kNone,
       {1.24827, 0.7298521, 1.742458, 0.8658738},
       4.237373},
      {"tanh_ostl_m2_win",
       "tanh",
       "ostl_recurrent",
       "win",
       2,
       kNone,
       {1.24827, 0.7298521, 1.742458, 0.8658738},
       4.237373},
      {"tanh_pp_prop_m2_win",
       "tanh",
       "pp_prop",
       "win",
       2,
       kNone,
       {1.24827, 0.7298521, 1.742458, 0.8658738},
       4.237373},
      {"tanh_ostl_m2",
       "tanh",
       "ostl_recurrent",
       "w",
       2,
       kNone,
       {0.06236247, 0.05171238, 0.05212884, -0.01849477},
       0.216724},
      {"tanh_pp_prop_m2",
       "tanh",
       "pp_prop",
       "w",
       2,
       kCompat,
       {0.06604784, 0.05048599, 0.05405634, -0.01651605},
       0.2200563},
      {"tanh_d_rtrl_ss",
       "tanh",
       "d_rtrl",
       "w",
       0,
       kNone,
       {0.05326065, 0.05484168, 0.05367696, -0.02115809},
       0.2079534},
      {"two_state_d_rtrl_m3", "two_state", "d_rtrl", "w", 3, kNone, two_state, 45.12438},
      {"two_state_d_rtrl_ss", "two_state", "d_rtrl", "w", 0, kNone, two_state, 45.12438},
      {"two_state_ostl_m3", "two_state", "ostl_recurrent", "w", 3, kNone, two_state, 45.12438},
      {"two_state_ostl_ss", "two_state", "ostl_recurrent", "w", 0, kNone, two_state, 45.12438},
      {"two_state_pp_prop_m3",
       "two_state",
       "pp_prop",
       "w",
       3,
       kCompat,
       {16.54473, 36.02859, -7.466847},
       51.7536},

      {"tanh_bptt",
       "tanh",
       "bptt",
       "w",
       0,
       kNone,
       {0.062715853, 0.052121266, 0.051274, -0.018992283},
       0.217035336,
       f64},
      {"tanh_bptt_win",
       "tanh",
       "bptt",
       "win",
       0,
       kNone,
       {1.3260759, 0.70182314, 1.8669645, 0.92069006},
       4.46653973,
       f64},
      {"tanh_d_rtrl_m1",
       "tanh",
       "d_rtrl",
       "w",
       1,
       kNone,
       {0.062256145, 0.05163569, 0.053359333, -0.020313742},
       0.218182412,
       f64},
      {"tanh_d_rtrl_m1_win",
       "tanh",
       "d_rtrl",
       "win",
       1,
       kNone,
       {1.0766088, 0.7912351, 1.5689481, 0.57287248},
       3.8980216,
       f64},
      {"tanh_ostl_ss",
       "tanh",
       "ostl_recurrent",
       "w",
       0,
       kNone,
       {0.056315639, 0.051759946, 0.055946324, -0.021352527},
       0.212207377,
       f64},
      {"tanh_pp_prop_ss",
       "tanh",
       "pp_prop",
       "w",
       0,
       kNone,
       {0.032358187, 0.029691784, 0.034784108, 0.0012388632},
       0.12324019,
       f64},
      {"two_state_bptt", "two_state", "bptt", "w", 0, kNone, two_state_f64, 45.1243857, f64},
      {"two_state_d_rtrl_m3_f64", "two_state", "d_rtrl", "w", 3, kNone, two_state_f64, 45.1243857, f64},
      {"two_state_pp_prop_ss",
       "two_state",
       "pp_prop",
       "w",
       0,
       kNone,
       {14.419976, 30.93451, -6.6772443},
       43.9066998,
       f64},
  };
}

Sequence published_sequence(const Model& m, Dtype dtype) {
  return {{array(kX, {8, 1, 3}, dtype)}, full(m.program.out_avals()[0].shape.with_front(8), 0.0, dtype)};
}

ParamValues published_run(const PublishedGradient& v) {
  const Model m = v.model == "tanh" ? tanh_model(v.dtype) : two_state_model(v.dtype);
  const Sequence data = published_sequence(m, v.dtype);
  if (v.rule == "bptt") return bptt(m, data).grads;
  RuleOptions options;
  if (v.rule == "pp_prop") options.set("decay_or_rank", 0.9);
  const auto rule = make_rule(v.rule, options);
  Learner learner =
      v.window > 0 ? make_learner(m, InWindows(*rule), v.compat) : make_learner(m, *rule, v.compat);
  return online(learner, data, v.window);
}

class Conformance : public ::testing::TestWithParam<PublishedGradient> {};

TEST_P(Conformance, L36_L37) {
  const PublishedGradient& v = GetParam();
  const Array found = published_run(v).at(v.leaf);
  const std::vector<double> values = found.tensor().to_doubles();
  const std::vector<double> first(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(v.row.size()));
  const double tolerance = 3e-7;
  EXPECT_LE(relative_deviation(array(first, Dtype::F64), array(v.row, Dtype::F64)), tolerance) << "first row";
  EXPECT_LE(std::abs(norm(found) / v.norm - 1.0), tolerance) << "norm";
}

INSTANTIATE_TEST_SUITE_P(Published, Conformance, ::testing::ValuesIn(published_gradients()),
                         [](const auto& info) { return info.param.name; });

// The reference gives a parameter without a trace no gradient in single steps; the default gives it that of
// the step.
TEST(Conformance, L36_ParametersWithoutATraceInSingleSteps) {
  const Model m = tanh_model(Dtype::F32);
  const Sequence data = published_sequence(m, Dtype::F32);
  Learner reference = make_learner(m, D_RTRL(), Compat::Braintrace), ours = make_learner(m, D_RTRL());
  const ParamValues theirs = online(reference, data), default_values = online(ours, data);
  EXPECT_EQ(norm(theirs.at("win")), 0.0);
  EXPECT_GT(norm(default_values.at("win")), 0.1);
  EXPECT_EQ(relative_deviation(theirs.at("w"), default_values.at("w")), 0.0);
}

// The correction of the factorised trace counts its own steps; that of the reference counts calls.
TEST(Conformance, L60_CorrectionByStepsAndByCalls) {
  const Model m = tanh_model(Dtype::F64);
  const Sequence data = published_sequence(m, Dtype::F64).part(0, 6);
  const InWindows rule{pp_prop({.decay_or_rank = 0.9})};
  Learner ours = make_learner(m, rule), reference = make_learner(m, rule, Compat::Braintrace);
  EXPECT_GT(largest_deviation(online(ours, data, 2), online(reference, data, 2), {"w"}), 1e-5);
}

// One window of the tanh model by hand: reverse mode inside steps 5 and 6, and λ_o·ε[i,o] at its entry with
// ε[i,o] = h³_i (1 − (h⁴_o)²), because the diagonal scope leaves nothing of the recurrence.
TEST(Conformance, OneWindowByHand) {
  const Model m = tanh_model(Dtype::F64);
  const Sequence data = published_sequence(m, Dtype::F64);
  Learner learner = make_learner(m, InWindows(D_RTRL()));
  const Sequence before = data.part(0, 3);
  const Array h3 = bptt(m, before).states[0], h4 = bptt(m, data.part(0, 4)).states[0];
  online(learner, data.part(0, 4), 2);
  const Array trace = learner.get_etrace_of("w")[0].value;  // [1, 4, 4, 1]
  const Array expected_trace = reshape(h3, {1, 4, 1, 1}) * reshape(1.0 - square(h4), {1, 1, 4, 1});
  EXPECT_LE(relative_deviation(trace, expected_trace), 1e-12);

  const Sequence window = data.part(4, 6);
  const ParamValues found = online(learner, window, 2);
  const ParamValues inside = bptt(m, window, initial_params(m).values, Arrays{h4}).grads;
  EXPECT_LE(relative_deviation(found.at("win"), inside.at("win")), 1e-12);
  // λ by differences of the window's loss.
  const auto loss = [&](const Array& h) {
    return sum(bptt(m, window, initial_params(m).values, Arrays{h}).losses).item<double>();
  };
  std::vector<double> lambda;
  for (int o = 0; o < 4; ++o) {
    std::vector<double> step(4, 0.0);
    step[static_cast<std::size_t>(o)] = 1e-5;
    const Array d = array(step, {1, 4}, Dtype::F64);
    lambda.push_back((loss(h4 + d) - loss(h4 - d)) / 2e-5);
  }
  const Array boundary = array(lambda, {1, 4}, Dtype::F64) * squeeze(expected_trace, {0, 3});
  EXPECT_LE(relative_deviation(found.at("w"), inside.at("w") + boundary), 1e-8);
}

}  // namespace
}  // namespace etrace
