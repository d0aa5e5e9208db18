// Operators used in ways that their rules do not foresee: a gain that follows the data, a factor that is
// data, functions of weights that change the shape, operators with several data inputs, operators made at run
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "support/errors.h"
#include "support/learning.h"
#include "support/learning_models.h"
#include "support/step_model.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Single steps and windows shorter than the sequence against reverse mode, with a rule that must fail.
void expect_exact_form(const Model& m, const std::vector<std::string>& names = {}) {
  const Sequence data = draw_sequence(m, 6);
  const ParamValues expected = bptt(m, data).grads;
  const auto run = [&](const LearningRule& rule, std::int64_t window) {
    Learner learner = make_learner(m, rule);
    return online(learner, data, window);
  };
  expect_gradients(run(D_RTRL(), 0), expected, 1e-9, names);
  expect_gradients(run(InWindows(D_RTRL()), 2), expected, 1e-9, names);
  const ForgetfulRule wrong(ForgetfulRule::Jacobian);
  EXPECT_GT(largest_deviation(run(wrong, 0), expected, names), 1e-6);
}

Array leaky(In& in, const Array& y) {
  in.set("h", 0.7 * sin(in["h"]) + tanh(y));
  return in["h"];
}

// y = x·W + v, where the row calls x the gain of the weight: true on every sample, and not a matter of
// weights. With a second data input v, which the derivative does not read.
const Primitive& gain_of_data_p() {
  static const Primitive& row = register_primitive(
      {.name = "test_gain_of_data",
       .doc = "y[o] = Σ_i x[i] W[i,o] + v[o]",
       .abstract = [](const Params&, std::span<const Aval> in) -> Avals {
         return {{in[1].dtype, {in[1].shape[1]}}};
       },
       .lower = [](const Params&, ArraySpan in) -> Arrays { return {dot(in[0], in[1]) + in[2]}; },
       .etp = make_etp(
           {.trainables = [](const Params&) -> std::vector<Trainable> {
              return {{"weight", 1}};
            },
            .anchors = [](const Params&, std::string_view, std::span<const Aval> in,
                          const Aval&) -> AnchorMap {
              return {in[1].shape, {1}, {}, {}};
            },
            .source = [](const Params&, std::string_view, ArraySpan in) -> std::optional<TraceSource> {
              return TraceSource{{}, {}, {}, broadcast_to(expand_dims(in[0], {1}), in[1].shape())};
            }}),
       .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
         return {{{array({0.5, -1.0}, Dtype::F64), array({{1, 2, 3}, {4, 5, 6}}, Dtype::F64),
                   array({1, 2, 3}, Dtype::F64)},
                  {}}};
       }});
  return row;
}

TEST(OperatorForms, AGainThatDependsOnDataIsLearned) {
  const Model m =
      step_model({arg("v", {3}), arg("x", {2}), hidden("h", {3}), param("w", {2, 3})}, [](In& in) {
        return leaky(in, bind1(gain_of_data_p(), {in["x"], in["w"], in["v"]}));
      });
  expect_exact_form(m);
  // The factorised rule does not need v either.
  Learner learner = make_learner(m, pp_prop(IODimOptions{.decay_or_rank = 0.9}));
  EXPECT_GT(norm(online(learner, draw_sequence(m, 6)).values[0]), 1e-3);
}

// Batched, with two data inputs: y[b,o] = Σ_i x[b,i] g[b,o] W[i,o]; no source is given.
const Primitive& gated_p() {
  static const Primitive& row = register_primitive(
      {.name = "test_gated",
       .doc = "y[b,o] = g[b,o] Σ_i x[b,i] W[i,o]",
       .abstract = [](const Params&, std::span<const Aval> in) -> Avals {
         return {{in[1].dtype, {in[0].shape[0], in[1].shape[1]}}};
       },
       .lower = [](const Params&, ArraySpan in) -> Arrays { return {dot(in[0], in[1]) * in[2]}; },
       .etp = make_etp({.batched = true,
                        .trainables = [](const Params&) -> std::vector<Trainable> {
                          return {{"weight", 1}};
                        },
                        .anchors = [](const Params&, std::string_view, std::span<const Aval> in,
                                      const Aval&) -> AnchorMap {
                          return {in[1].shape, {1}, {}, {}};
                        }}),
       .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
         return {{{array({{0.5, -1.0}, {1.0, 2.0}}, Dtype::F64), array({{1, 2, 3}, {4, 5, 6}}, Dtype::F64),
                   array({{1, 2, 3}, {-1, 0.5, 2}}, Dtype::F64)},
                  {}}};
       }});
  return row;
}

TEST(OperatorForms, ABatchedOperatorWithTwoDataInputs) {
  const Model m =
      step_model({arg("g", {2, 3}), arg("x", {2, 2}), hidden("h", {2, 3}), param("w", {2, 3})}, [](In& in) {
        return leaky(in, bind1(gated_p(), {in["x"], in["w"], in["g"]}));
      });
  expect_exact_form(m);
  EXPECT_THAT(
      message_of<NotSupportedError>([&] { make_learner(m, pp_prop(IODimOptions{.decay_or_rank = 0.9})); }),
      AllOf(HasSubstr("w: operand 2 of test_gated changes with the data"), HasSubstr("D_RTRL")));
}

// LoRA with one factor from the data
// --------------------------------------------------------------------------
Model lora_model(bool a_is_data, bool batched) {
  const Shape x = batched ? Shape{2, 3} : Shape{3}, h = batched ? Shape{2, 4} : Shape{4};
  ModelInputs inputs{a_is_data ? arg("a", {2, 4}) : arg("b", {3, 2}), arg("x", x), hidden("h", h),
                     a_is_data ? param("b", {3, 2}) : param("a", {2, 4})};
  return step_model(inputs, [](In& in) {
    const WeightFn f = [](const Array& w) { return tanh(w); };
    return leaky(in, lora_matmul(in["x"], in["b"], in["a"], {}, {.alpha = 0.5, .b_fn = f}));
  });
}

TEST(OperatorForms, LoraWithAFactorThatIsData) {
  for (const bool a_is_data : {true, false})
    for (const bool batched : {true, false}) {
      SCOPED_TRACE(a_is_data);
      SCOPED_TRACE(batched);
      const Model m = lora_model(a_is_data, batched);
      expect_exact_form(m);
      EXPECT_THAT(message_of<NotSupportedError>(
                      [&] { make_learner(m, pp_prop(IODimOptions{.decay_or_rank = 0.9})); }),
                  AllOf(HasSubstr("etp_lora_m"), HasSubstr(a_is_data ? "'lora_a'" : "'lora_b'")));
    }
}

TEST(OperatorForms, LoraWithAConstantFactorKeepsTheEffectiveWeight) {
  const Array a = array({{0.3, -0.2, 0.5, 0.1}, {0.7, 0.4, -0.6, 0.2}}, Dtype::F64);
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("b", {3, 2})},
                             [&](In& in) { return leaky(in, lora_matmul(in["x"], in["b"], a)); });
  expect_exact_form(m);
  const Learner learner = make_learner(m, D_RTRL());
  EXPECT_EQ(learner.etraces()[0].value.shape(), (Shape{3, 4, 1}));
}

// Functions that change the shape
// -----------------------------------------------------------------------------
struct ShapeCase {
  const char* name;
  ModelInputs inputs;
  Shape h;
  std::function<Array(In&)> drive;
};

const WeightFn kTransposed = [](const Array& w) { return tanh(transpose(w)); };
const WeightFn kTwice = [](const Array& b) { return concatenate(Arrays{b, 2.0 * b}); };

std::vector<ShapeCase> shape_cases() {
  const SparsePattern pattern = SparsePattern::coo(3, 4, {0, 1, 2, 2}, {0, 1, 3, 0});
  return {
      {"mv",
       {arg("x", {3}), param("b", {2}), param("w", {4, 3})},
       {4},
       [](In& in) {
         return matmul(in["x"], in["w"], in["b"], {kTransposed, kTwice});
       }},
      {"mm",
       {arg("x", {2, 3}), param("b", {2}), param("w", {4, 3})},
       {2, 4},
       [](In& in) {
         return matmul(in["x"], in["w"], in["b"], {kTransposed, kTwice});
       }},
      {"gmm",
       {arg("x", {2, 2, 3}), param("w", {4, 3, 2})},
       {2, 2, 4},
       [](In& in) {
         return grouped_matmul(in["x"], in["w"], {}, {kTransposed, {}});
       }},
      {"emb",
       {arg("i", {3}, Dtype::I32), param("w", {4, 3})},
       {3, 4},
       [](In& in) { return embedding(in["i"], in["w"], kTransposed); }},
      {"einsum",
       {arg("x", {2, 3}), param("w", {4, 3})},
       {2, 4},
       [](In& in) { return einsum("bi,io->bo", in["x"], in["w"], kTransposed); }},
      {"elemwise",
       {arg("x", {4}), param("w", {2})},
       {4},
       [](In& in) { return element_wise(in["w"], kTwice) * in["x"]; }},
      {"conv",
       {arg("x", {2, 2, 5}), param("k", {3, 2, 3})},
       {2, 3, 5},
       [](In& in) { return conv(in["x"], in["k"], {}, {.kernel_fn = kTransposed}); }},
      {"sparse",
       {arg("x", {2, 3}), param("w", {2})},
       {2, 4},
       [pattern](In& in) {
         return sparse_matmul(in["x"], in["w"], pattern, {}, {kTwice, {}});
       }},
      {"lora",
       {arg("x", {2, 3}), param("a", {4, 2}), param("b", {2, 3})},
       {2, 4},
       [](In& in) {
         return lora_matmul(in["x"], in["b"], in["a"], {}, {.b_fn = kTransposed, .a_fn = kTransposed});
       }},
  };
}

TEST(OperatorForms, FunctionsMayChangeTheShape) {
  for (const ShapeCase& c : shape_cases()) {
    SCOPED_TRACE(c.name);
    ModelInputs inputs = c.inputs;
    inputs.insert(inputs.begin() + 1, hidden("h", c.h));
    expect_exact_form(step_model(inputs, [&](In& in) { return leaky(in, c.drive(in)); }));
  }
}

TEST(OperatorForms, TheFactorisedRuleTakesFunctionsThatChangeTheShape) {
  // For one step from a state of zeros it is exact, too.
  for (const ShapeCase& c : shape_cases()) {
    SCOPED_TRACE(c.name);
    ModelInputs inputs = c.inputs;
    inputs.insert(inputs.begin() + 1, hidden("h", c.h));
    const Model m = step_model(inputs, [&](In& in) { return leaky(in, c.drive(in)); });
    const Sequence data = draw_sequence(m, 1);
    Learner learner = make_learner(m, pp_prop(IODimOptions{.decay_or_rank = 0.5}));
    expect_gradients(online(learner, data), bptt(m, data).grads, 1e-9);
  }
}

// The reference keeps the slots of the weight under any function; where that mixes columns, its gradient is
// another one. Windows give the same as single steps.
TEST(OperatorForms, CompatKeepsTheSlotsOfAMixedWeight) {
  const WeightFn softmaxed = [](const Array& w) { return exp(w) / sum(exp(w), {1}, true); };
  for (const bool batched : {true, false}) {
    const Shape x = batched ? Shape{2, 3} : Shape{3}, h = batched ? Shape{2, 4} : Shape{4};
    const Model m = step_model({arg("x", x), hidden("h", h), param("w", {3, 4})}, [&](In& in) {
      return leaky(in, matmul(in["x"], in["w"], {}, {softmaxed, {}}));
    });
    const Sequence data = draw_sequence(m, 6);
    const auto run = [&](Compat compat, std::int64_t window) {
      Learner learner = make_learner(m, D_RTRL(), compat, window);
      return online(learner, data);
    };
    const ParamValues exact = bptt(m, data).grads, compat = run(Compat::Braintrace, 1);
    expect_gradients(run(Compat::None, 1), exact, 1e-9);
    EXPECT_GT(largest_deviation(compat, exact), 1e-3);
    expect_gradients(run(Compat::Braintrace, 4), compat, 1e-12);
  }
}

// An operator whose rules hold what only the run knows
// -------------------------------------------------------
PrimitiveSpec scaled_product(const std::string& name, double scale) {
  return {.name = name,
          .doc = "y = scale·x·W",
          .abstract = [](const Params&, std::span<const Aval> in) -> Avals {
            return {{in[1].dtype, {in[1].shape[1]}}};
          },
          .lower = [scale](const Params&, ArraySpan in) -> Arrays { return {scale * dot(in[0], in[1])}; },
          .etp = make_etp({.trainables = [](const Params&) -> std::vector<Trainable> {
                             return {{"weight", 1}};
                           },
                           .anchors = [](const Params&, std::string_view, std::span<const Aval> in,
                                         const Aval&) -> AnchorMap {
                             return {in[1].shape, {1}, {}, {}};
                           },
                           .source = [scale](const Params&, std::string_view,
                                             ArraySpan in) -> std::optional<TraceSource> {
                             return TraceSource{scale * in[0], {0}, {}, {}};
                           }}),
          .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
            return {{{array({0.5, -1.0}, Dtype::F64), array({{1, 2, 3}, {4, 5, 6}}, Dtype::F64)}, {}}};
          }};
}

TEST(OperatorForms, OperatorsAreMadeAtRunTime) {
  for (const double scale : {0.5, -2.0}) {
    const Primitive& p = register_primitive(scaled_product("test_scaled_" + std::to_string(scale), scale));
    expect_exact_form(step_model({arg("x", {2}), hidden("h", {3}), param("w", {2, 3})}, [&](In& in) {
      return leaky(in, bind1(p, {in["x"], in["w"]}));
    }));
  }
}

TEST(OperatorForms, ARowListsItsParameters) {
  PrimitiveSpec row = scaled_product("test_unlisted", 1.0);
  row.samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
    return {{{array({0.5, 1.0}, Dtype::F64), array({{1, 2}, {3, 4}}, Dtype::F64)}, {{"slope", 1.0}}}};
  };
  EXPECT_THAT(message_of<CompilationError>([&] { register_primitive(row); }),
              AllOf(HasSubstr("test_unlisted"), HasSubstr("'slope'"), HasSubstr("params")));
  EXPECT_EQ(find_primitive("test_unlisted"), nullptr);
}

// Whether a registered operator couples positions is what its row says, or else its lowering.
TEST(OperatorForms, WhetherARegisteredOperatorCouplesPositionsFollowsFromItsRow) {
  const auto softsign = [](const Array& x) { return x / (1.0 + abs(x)); };
  const auto normed = [](const Array& x) { return x / (1.0 + sum(abs(x))); };
  const auto row = [](const std::string& name, bool elementwise, const auto& f) -> PrimitiveSpec {
    return {.name = name,
            .doc = "y = x/(1 + |x|), of each element or of all",
            .elementwise = elementwise,
            .abstract = [](const Params&, std::span<const Aval> in) -> Avals { return {in[0]}; },
            .lower = [f](const Params&, ArraySpan in) -> Arrays { return {f(in[0])}; },
            .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
              return {{{array({0.5, -1.0}, Dtype::F64)}, {}}};
            }};
  };
  const Primitive& said = register_primitive(row("test_softsign", true, softsign));
  const Primitive& found = register_primitive(row("test_softsign_unsaid", false, softsign));
  const Primitive& coupling = register_primitive(row("test_normed", false, normed));
  for (const Primitive* p : {&said, &found, &coupling}) {
    const Model m = step_model({arg("x", {2}), hidden("h", {3}), param("w", {2, 3})}, [&](In& in) {
      in.set("h", 0.5 * in["h"] + bind1(*p, {matmul(in["x"], in["w"])}));
      return in["h"];
    });
    const ETraceGraph g = compile_etrace_graph(m);
    EXPECT_EQ(g.hidden_param_op_relations.at(0).tail_reasons.at(0).empty(), p != &coupling) << p->name();
    if (p != &coupling) expect_exact_form(m);
  }
}

}  // namespace
}  // namespace etrace
