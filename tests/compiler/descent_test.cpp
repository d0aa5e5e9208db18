// Scenario J, second part: long loops are traced inside, step by step.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

const Inputs kWeights{param("w", {3, 4}), param("u", {4, 4})};

CompileOptions unroll_limit(std::int64_t n) {
  CompileOptions o;
  o.control_flow.scan_unroll_limit = n;
  return o;
}

TEST(Descent, S109_WhatPreventsIt) {
  const auto skipped = [](const Step& step, const Inputs& inputs, const CompileOptions& options) {
    try {
      return compile_cell(step, inputs, options).diagnostics;
    } catch (const WithRecords<NotSupportedError>& e) {
      return e.records;
    }
  };
  const auto blocker = [&](const Step& step, const Inputs& inputs = kWeights,
                           const CompileOptions& options = {}) {
    for (const CompilationRecord& r : skipped(step, inputs, options))
      if (r.kind == Kind::SCAN_DESCENT_SKIPPED) return r.message;
    return std::string();
  };
  const auto loop = [](In& in, const ScanBody& body, const Arrays& xs, const ScanOptions& options) {
    in.set("h", scan(body, {in["h"]}, xs, options).carry[0]);
    return in["h"];
  };
  const Step reversed = [&](In& in) {
    return loop(in,
                [&](ArraySpan c, ArraySpan) -> ScanResult {
                  return {{0.9 * c[0] + matmul(c[0], in["u"])}, {}};
                },
                {}, {.length = 40, .reverse = true});
  };
  const Step nested = [&](In& in) {
    return loop(in,
                [&](ArraySpan c, ArraySpan) -> ScanResult {
                  const Arrays inner = while_loop([](ArraySpan a) { return sum(a[0]) > 100.0; },
                                                  [](ArraySpan a) { return Arrays{0.5 * a[0]}; }, {c[0]});
                  return {{0.9 * inner[0] + matmul(c[0], in["u"])}, {}};
                },
                {}, {.length = 40});
  };
  const Step weight_as_xs = [&](In& in) {
    return loop(in,
                [&](ArraySpan c, ArraySpan w) -> ScanResult {
                  return {{0.9 * c[0] + matmul(in["x"], w[0])}, {}};
                },
                {in["ws"]}, {});
  };
  const Step decaying_weight = [&](In& in) {
    in.set("h", scan(
                    [&](ArraySpan c, ArraySpan) -> ScanResult {
                      return {{0.9 * c[0] + matmul(c[0], c[1]), 0.9 * c[1]}, {}};
                    },
                    {in["h"], in["u"]}, {}, {.length = 40})
                    .carry[0]);
    return in["h"];
  };
  CompileOptions off;
  off.control_flow.scan_descent = ControlFlowPolicy::Descent::Off;
  const Step plain = [](In& in) { return inner_loop(in, 40, false); };
  EXPECT_THAT(blocker(plain, kWeights, off), ::testing::HasSubstr("scan_descent"));
  EXPECT_THAT(blocker(reversed), ::testing::HasSubstr("reverse"));
  EXPECT_THAT(blocker(nested), ::testing::HasSubstr("nested control flow"));
  EXPECT_THAT(blocker(weight_as_xs, {param("ws", {40, 3, 4})}), ::testing::HasSubstr("xs"));
  EXPECT_THAT(blocker(decaying_weight), ::testing::HasSubstr("carries"));
  EXPECT_EQ(blocker(plain), "");
  EXPECT_EQ(blocker([](In& in) { return inner_loop(in, 3, false); }), "") << "short loops are unrolled";
}

TEST(Descent, S110_LeakyLoopIsTracedInside) {
  const Model m = cell([](In& in) { return inner_loop(in, 40, false); }, kWeights);
  const ETraceGraph g = compile_etrace_graph(m, unroll_limit(4));
  EXPECT_EQ(count(g, Kind::SCAN_DESCENT_APPLIED), 1U);
  ASSERT_EQ(relations(g), "w->h");
  ASSERT_EQ(groups(g), "[h]");
  const HiddenGroup& group = g.hidden_groups[0];
  const HiddenParamOpRelation& r = g.hidden_param_op_relations[0];
  ASSERT_TRUE(group.descent.has_value());
  ASSERT_TRUE(r.control_flow_context.has_value());
  const ScanInfo& scan = group.descent->scan;
  std::vector<Var> needed{*r.x_var, r.y_var};
  for (const std::vector<Var>* more : {&r.y_to_hidden_group_jaxprs[0].constvars,
                                       &group.descent->body_hidden_invars, &group.transition_jaxpr.constvars})
    needed.insert(needed.end(), more->begin(), more->end());
  for (const Var& v : needed) {
    ASSERT_NE(scan.outer(v), nullptr);
    EXPECT_EQ(scan.outer(v)->aval.shape, v.aval.shape.with_front(40));
  }
  for (const Eqn& e : g.module_info.jaxpr().eqns)
    EXPECT_TRUE(e.id != scan.eqn_id || e.out[0] == g.module_info.hidden[0].outvar) << "new results follow";
  check(g.module_info.closed_jaxpr);
  check(g.hidden_perturb->perturb_jaxpr);
}

TEST(Descent, S111_MixingBody) {
  const ETraceGraph g = compile_cell([](In& in) { return inner_loop(in, 40, true); }, kWeights);
  ASSERT_EQ(relations(g), "w->h u->h");
  EXPECT_FALSE(g.hidden_param_op_relations[0].y_var == g.hidden_param_op_relations[1].y_var);
}

TEST(Descent, S112_OffRefusesTheLoop) {
  CompileOptions options;
  options.control_flow.scan_descent = ControlFlowPolicy::Descent::Off;
  EXPECT_THROW(compile_cell([](In& in) { return inner_loop(in, 40, false); },
                            {param("w", {3, 4}), param("u", {4, 4})}, options),
               NotSupportedError);
}

TEST(Descent, S113_LoopMustStartFromTheState) {
  const auto step = [](In& in) {
    in.set("h", 0.5 * in["h"]);
    return inner_loop(in, 40, false);
  };
  try {
    compile_cell(step, kWeights);
    FAIL() << "a loop that starts from a scaled state must be refused";
  } catch (const WithRecords<NotSupportedError>& e) {
    EXPECT_EQ(count(e.records, Kind::SCAN_DESCENT_SKIPPED), 1U);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("within a scan"));
  }
}

TEST(Descent, S114_OperatorOutsideThatDrivesTheLoop) {
  const auto step = [](In& in) {
    const Array drive = matmul(in["x"], in["w"]);
    in.set("h", scan(
                    [&](ArraySpan c, ArraySpan) -> ScanResult {
                      return {{0.9 * c[0] + 0.1 * drive + 0.1 * matmul(c[0], in["u"])}, {}};
                    },
                    {in["h"]}, {}, {.length = 40})
                    .carry[0]);
    return in["h"];
  };
  try {
    compile_cell(step, kWeights);
    FAIL() << "a relation from outside into a descended loop must be refused";
  } catch (const NotSupportedError& e) {
    EXPECT_THAT(e.what(),
                ::testing::AllOf(::testing::HasSubstr("descended scan"), ::testing::HasSubstr("w")));
  }
  EXPECT_NO_THROW(compile_cell(step, kWeights, unroll_limit(40)));
}

TEST(Descent, S115_PlainProductInTheBody) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", scan(
                        [&](ArraySpan c, ArraySpan) -> ScanResult {
                          return {{0.9 * c[0] + dot(c[0], in["u"])}, {}};
                        },
                        {in["h"]}, {}, {.length = 40})
                        .carry[0]);
        return in["h"];
      },
      kWeights);
  EXPECT_EQ(relations(g), "");
  EXPECT_EQ(groups(g), "[h]");
  EXPECT_EQ(count(g, Kind::SCAN_DESCENT_NO_RELATIONS), 1U);
}

// The trace of one relation over the loop's steps: e ← D e + df ⊗ x, for element-wise bodies ∂h'/∂w exactly.
// Returns [I, O, S].
Array folded_trace(const ETraceGraph& g, const Model& m) {
  const HiddenGroup& group = g.hidden_groups[0];
  const HiddenParamOpRelation& r = g.hidden_param_op_relations[0];
  const Values values(g, m);
  const auto at = [&](const std::vector<Var>& body, std::int64_t t) {
    Arrays out;
    for (const Var& v : body) out.push_back(item(values[*group.descent->scan.outer(v)], t));
    return out;
  };
  const Jaxpr& tail = r.y_to_hidden_group_jaxprs[0];
  Array trace = zeros({3, 4, group.num_state()}, Dtype::F64);
  for (std::int64_t t = 0; t < group.descent->scan.length; ++t) {
    const Array d = group.diagonal_jacobian(at(group.descent->body_hidden_invars, t),
                                            at(group.transition_jaxpr.constvars, t));  // [O, S, S]
    const Arrays y = at({r.y_var}, t), consts = at(tail.constvars, t);
    const Function through_tail = [&](ArraySpan a) {
      return Arrays{group.concat_hidden(eval_jaxpr(tail, consts, a))};
    };
    const Array df = jvp(through_tail)(Arrays{y[0], ones({4}, Dtype::F64)})[1];  // [O, S]
    const Array x = reshape(at({*r.x_var}, t)[0], {3, 1, 1});
    trace = sum(expand_dims(trace, {2}) * expand_dims(d, {0}), {3}) + x * expand_dims(df, {0});
  }
  return trace;
}

TEST(Descent, S116_FoldedTraceIsTheDerivativeOfTheLoop) {
  const Model one = step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})},
                               [](In& in) { return inner_loop(in, 20, false); });
  const Model two =
      step_model({arg("x", {3}), hidden("v", {4}), hidden("a", {4}), param("w", {3, 4})}, [](In& in) {
        const Arrays next = scan(
                                [&](ArraySpan c, ArraySpan x) -> ScanResult {
                                  const Array v = 0.9 * c[0] - 0.2 * c[1] + tanh(matmul(x[0], in["w"]));
                                  return {{v, 0.8 * c[1] + 0.1 * square(v)}, {}};
                                },
                                {in["v"], in["a"]}, {broadcast_to(in["x"], {20, 3})})
                                .carry;
        in.set("v", next[0]);
        in.set("a", next[1]);
        return next[0];
      });
  for (const Model* m : {&one, &two}) {
    const ETraceGraph g = compile_etrace_graph(*m);
    ASSERT_EQ(g.hidden_param_op_relations.size(), 1U);
    const Array trace = folded_trace(g, *m);
    const Arrays inputs = inputs_of(*m);
    const std::size_t states = g.module_info.hidden.size();
    for (std::size_t s = 0; s < states; ++s) {
      const Function of_w = [&](ArraySpan w) {
        Arrays all = inputs;
        all.back() = w[0];
        return Arrays{eval_jaxpr(m->program, all)[1 + s]};
      };
      // ∂h'[o]/∂w[i,k] is the trace where o = k, zero elsewhere.
      const Array of_slot =
          slice(trace, {0, 0, static_cast<std::int64_t>(s)}, {3, 4, static_cast<std::int64_t>(s) + 1});
      const Array expected = expand_dims(eye(4, Dtype::F64), {1}) * reshape(of_slot, {1, 3, 4});
      expect_same(jacfwd(of_w)(Arrays{inputs.back()}), Arrays{expected}, 1e-11);
    }
  }
}

}  // namespace
}  // namespace etrace
