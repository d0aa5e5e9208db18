// Scenario J, third part: what enters a loop that is traced inside (D14: parameters that are processed on the
// way in or in the body, constants) and what leaves it.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// Operands of the loop's operator: h ← 0.9 h + operand(x, …), 20 sub-steps.
Model driven_loop(const Inputs& weights,
                  const std::function<Array(In& in, const Array& x)>& before_and_in_loop) {
  return cell(
      [&](In& in) {
        in.set("h", scan(
                        [&](ArraySpan c, ArraySpan x) -> ScanResult {
                          return {{0.9 * c[0] + before_and_in_loop(in, x[0])}, {}};
                        },
                        {in["h"]}, {broadcast_to(in["x"], {20, 3})})
                        .carry[0]);
        return in["h"];
      },
      weights);
}

// The chain from leaves to the operand, as the outer program sees it, evaluated at the initial parameters.
Array operand_of(const ETraceGraph& g, const Model& m, const TrainableSource& t) {
  Arrays consts, leaves;
  const ClosedJaxpr& program = g.module_info.closed_jaxpr;
  for (const Var& v : t.processing.constvars)
    for (std::size_t i = 0; i < program.consts.size(); ++i)
      if (program.jaxpr.constvars[i] == v) consts.push_back(program.consts[i]);
  for (const auto& [path, leaf] : t.leaves)
    for (const InputRecord& in : m.inputs)
      if (in.role == Role::Param && in.path == path && in.leaf == leaf) leaves.push_back(in.init);
  return eval_jaxpr(t.processing, consts, leaves)[0];
}

TEST(DescentOperands, WeightDerivedOperandsAreTracedToTheirLeaves) {
  const Array mask = array(std::vector<double>{1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0}, {3, 4}, Dtype::F64);
  const Inputs weights{param("a", {3, 4}), leaf("P", "b", 0, {4}), leaf("P", "w", 1, {3, 4})};
  struct Row {
    std::function<Array(In& in, const Array& x)> drive;
    std::function<Array(const Array& a, const Array& w)> operand;
    std::size_t leaves, found_by_reference;
  };
  const std::vector<Row> rows{// computed before the loop, from two parameters, and in the loop
                              {[&](In& in, const Array& x) { return matmul(x, mask * in["P:w"]); },
                               [&](const Array&, const Array& w) { return mask * w; }, 1, 0},
                              {[&](In& in, const Array& x) { return matmul(x, in["a"] + tanh(in["P:w"])); },
                               [&](const Array& a, const Array& w) { return a + tanh(w); }, 2, 0},
                              {[&](In& in, const Array& x) {
                                 return jit([](ArraySpan v) { return Arrays{matmul(v[0], v[1] * v[2])}; })(
                                     Arrays{x, mask, in["P:w"]})[0];
                               },
                               [&](const Array&, const Array& w) { return mask * w; }, 1, 1}};
  for (const Row& row : rows) {
    const Model m = driven_loop(weights, row.drive);
    const ETraceGraph g = compile_etrace_graph(m);
    EXPECT_EQ(count(g, Kind::SCAN_DESCENT_APPLIED), 1U);
    EXPECT_EQ(count(g, Kind::SCAN_DESCENT_NO_RELATIONS), 0U);
    ASSERT_EQ(g.hidden_param_op_relations.size(), 1U);
    const TrainableSource& t = g.hidden_param_op_relations[0].trainables[0];
    EXPECT_EQ(t.leaves.size(), row.leaves);
    check(t.processing);
    expect_same(Arrays{operand_of(g, m, t)}, Arrays{row.operand(m.inputs[2].init, m.inputs[4].init)});
    EXPECT_EQ(compile_etrace_graph(m, compat()).hidden_param_op_relations.size(), row.found_by_reference)
        << "the reference does not look before the loop (D14)";
  }
}

TEST(DescentOperands, ConstantsOfTheBodyItself) {
  // Files may hold bodies with constants of their own; here the mask, which we would pass as an operand.
  const Array mask = array(std::vector<double>{1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0}, {3, 4}, Dtype::F64);
  Model m = driven_loop({param("w", {3, 4})}, [&](In& in, const Array& x) {
    return jit([](ArraySpan v) { return Arrays{matmul(v[0], v[1] * v[2])}; })(Arrays{x, mask, in["w"]})[0];
  });
  for (Eqn& e : m.program.jaxpr.eqns) {
    if (e.prim != &scan_p) continue;
    ASSERT_EQ(std::get<Var>(e.in[0]), m.program.jaxpr.constvars[0]);
    ClosedJaxpr body = *e.params.jaxpr("jaxpr");
    body.jaxpr.constvars.push_back(body.jaxpr.invars[0]);
    body.consts.push_back(mask.tensor());
    body.jaxpr.invars.erase(body.jaxpr.invars.begin());
    e.in.erase(e.in.begin());
    e.params = e.params.with("jaxpr", share(body)).with("num_consts", e.params.integer("num_consts") - 1);
  }
  check(m.program);
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(relations(g), "w->h");
  expect_same(Arrays{operand_of(g, m, g.hidden_param_op_relations[0].trainables[0])},
              Arrays{mask * Array(m.inputs[2].init)});
  check(g.module_info.closed_jaxpr);
}

TEST(DescentOperands, BareLeafOfAParameterWithSeveral) {
  const Model m = driven_loop({leaf("P", "b", 0, {4}), leaf("P", "w", 1, {3, 4})},
                              [](In& in, const Array& x) { return matmul(x, in["P:w"], in["P:b"]); });
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(g.hidden_param_op_relations.size(), 1U);
  const HiddenParamOpRelation& r = g.hidden_param_op_relations[0];
  EXPECT_EQ(r.trainable("weight")->leaf, 1);
  EXPECT_EQ(r.trainable("bias")->leaf, 0);
  EXPECT_TRUE(r.trainable("weight")->processing.eqns.empty());
}

TEST(DescentOperands, StatesThatTheBodySetsToOneValueStayApart) {
  const Model m =
      step_model({arg("x", {3}), hidden("a", {4}), hidden("b", {4}), param("w", {3, 4})}, [](In& in) {
        const Arrays next = scan(
                                [&](ArraySpan c, ArraySpan x) -> ScanResult {
                                  const Array n = 0.9 * c[0] + 0.1 * c[1] + matmul(x[0], in["w"]);
                                  return {{n, n}, {}};
                                },
                                {in["a"], in["b"]}, {broadcast_to(in["x"], {20, 3})})
                                .carry;
        in.set("a", next[0]);
        in.set("b", next[1]);
        return next[0];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(groups(g), "[a b]");
  EXPECT_EQ(relations(g), "w->a,b");
  EXPECT_EQ(g.hidden_groups[0].hidden_outvars.size(), 2U);
  check(g.module_info.closed_jaxpr);
  for (const Jaxpr& tail : g.hidden_param_op_relations[0].y_to_hidden_group_jaxprs) check(tail);
  expect_same(eval_jaxpr(m.program, inputs_of(m)), [&] {
    Arrays out = eval_jaxpr(g.module_info.closed_jaxpr, inputs_of(m));
    out.resize(m.outputs.size());
    return out;
  }());
}

TEST(DescentOperands, LoopOfHiddenStatesAloneStaysOneEquation) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        const Array relaxed = scan(
                                  [](ArraySpan c, ArraySpan) -> ScanResult {
                                    return {{0.9 * c[0]}, {}};
                                  },
                                  {in["h"]}, {}, {.length = 40})
                                  .carry[0];
        in.set("h", relaxed + matmul(in["x"], in["w"]));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_EQ(count(g.hidden_groups[0].transition_jaxpr, scan_p), 1U);
  ASSERT_EQ(g.diagnostics[0].kind, Kind::SCAN_UNROLL_SKIPPED);
  EXPECT_THAT(g.diagnostics[0].message, ::testing::Not(::testing::HasSubstr("descent"))) << "D14";
}

}  // namespace
}  // namespace etrace
