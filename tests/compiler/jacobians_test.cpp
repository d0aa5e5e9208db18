// Scenario F, second part: transitions and their Jacobians, and the slab of a group's states.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

bool holds_mixing_operator(const Jaxpr& program) {
  for (const Eqn& e : program.eqns)
    if (const EtpRules* rules = etp_rules(*e.prim); rules != nullptr && !rules->gradient_enabled) return true;
  return false;
}

TEST(Transitions, S57_VanillaCellHasNoRecurrenceOfItsOwn) {
  const Model m = reference_model("cell_ValinaRNNCell_tanh");
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_TRUE(g.hidden_groups[0].transition_jaxpr.eqns.empty());
  const Array d = diagonal_jacobian(g.hidden_groups[0], Values(g, m));
  expect_same(Arrays{d}, Arrays{zeros_like(d)});
}

TEST(Transitions, S58_S59_OperatorsBelongToTheCoupledScope) {
  for (const char* name : {"cell_GRUCell", "cell_LSTMCell", "cell_MGUCell", "cell_MinimalRNNCell",
                           "cell_ValinaRNNCell_tanh", "cell_LRUCell"}) {
    const Model m = reference_model(name);
    for (const HiddenGroup& g : compile_etrace_graph(m).hidden_groups)
      EXPECT_FALSE(holds_mixing_operator(g.transition_jaxpr)) << name;
    const bool recurrent_product = std::string(name) != "cell_LRUCell";
    for (const HiddenGroup& g : compile_etrace_graph(m, mixing()).hidden_groups) {
      EXPECT_EQ(holds_mixing_operator(g.transition_jaxpr), recurrent_product) << name;
      EXPECT_EQ(g.is_diagonal_recurrence, !recurrent_product) << name << ": " << g.mixing_reason;
    }
    CompileOptions reference = mixing();
    reference.compat = Compat::Braintrace;
    for (const HiddenGroup& g : compile_etrace_graph(m, reference).hidden_groups)
      EXPECT_FALSE(g.is_diagonal_recurrence) << name << ": the reference sets the flag by scope (D5)";
  }
}

TEST(Transitions, S60_BlocksOfEveryReferenceCell) {
  for (const char* name :
       {"cell_GRUCell", "cell_LSTMCell", "cell_MGUCell", "cell_MinimalRNNCell", "cell_ValinaRNNCell_relu",
        "cell_LRUCell", "cell_CFNCell_b3", "cell_URLSTMCell", "cell_MiniGRU", "cell_MiniLSTM_b3",
        "snn_alif_expcu", "snn_coba_ei_b3", "snn_gif_exp", "snn_lif_delta", "snn_lif_expcu", "snn_lif_std"}) {
    const Model m = reference_model(name);
    for (const CompileOptions& options : {CompileOptions{}, mixing()}) {
      const ETraceGraph g = compile_etrace_graph(m, options);
      const Values values(g, m);
      for (const HiddenGroup& group : g.hidden_groups) {
        const Array full = full_jacobian(group, values);
        const auto d =
            difference(Arrays{diagonal_jacobian(group, values)}, Arrays{blocks_of(group, full)}, 1e-12);
        EXPECT_FALSE(d) << name << (options.include_recurrent_mixing ? " coupled: " : " diagonal: ") << *d;
      }
    }
  }
}

Model reservoir() {
  const Array r = array(
      {{0.1, -0.4, 0.2, 0.0}, {0.3, 0.1, 0.0, 0.5}, {0.0, 0.2, -0.1, 0.1}, {0.2, 0.0, 0.4, 0.3}}, Dtype::F64);
  return cell(
      [&](In& in) {
        in.set("h", tanh(dot(in["h"], r) + in["h"] * 0.5 + matmul(in["x"], in["w"])));
        return in["h"];
      },
      {param("w", {3, 4})});
}

TEST(Transitions, S61_ConstantReservoirIsCutInDiagonalScopeOnly) {
  const Model m = reservoir();
  const ETraceGraph diagonal = compile_etrace_graph(m), coupled = compile_etrace_graph(m, mixing());
  EXPECT_TRUE(diagonal.hidden_groups[0].is_diagonal_recurrence);
  EXPECT_EQ(count(diagonal.hidden_groups[0].transition_jaxpr, dot_general_p), 0U);
  const HiddenGroup& group = coupled.hidden_groups[0];
  EXPECT_FALSE(group.is_diagonal_recurrence);
  EXPECT_EQ(count(group.transition_jaxpr, dot_general_p), 1U);
  const Values values(coupled, m);
  expect_same(Arrays{diagonal_jacobian(group, values)},
              Arrays{blocks_of(group, full_jacobian(group, values))});
}

TEST(Transitions, S62_FullJacobianIsThatOfTheTransition) {
  // Positions [2,3], two states: h rolls along its last axis, c does not.
  const Model m = step_model({arg("x", {2, 3}), hidden("c", {2, 3}), hidden("h", {2, 3})}, [](In& in) {
    in.set("c", 0.7 * in["c"] + tanh(in["x"]) * in["h"]);
    in.set("h", tanh(in["c"]) + 0.5 * roll(in["h"], 1, 1));
    return in["h"];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(groups(g), "[c h]");
  const HiddenGroup& group = g.hidden_groups[0];
  EXPECT_FALSE(group.is_diagonal_recurrence);
  const Values values(g, m);
  const Arrays consts = values[group.transition_jaxpr.constvars];
  const Function slab = [&](ArraySpan s) {
    return Arrays{group.concat_hidden(group.transition(group.split_hidden(s[0]), consts))};
  };
  const Arrays at{group.concat_hidden(values[group.hidden_invars])};
  const Array full = full_jacobian(group, values);
  EXPECT_EQ(full.shape(), (Shape{2, 3, 2, 2, 3, 2}));
  expect_same(Arrays{full}, jacrev(slab)(at));
  expect_same(Arrays{full}, jacfwd(slab)(at));
  expect_same(Arrays{diagonal_jacobian(group, values)}, Arrays{blocks_of(group, full)});
  // h of (0,0) reads h of (0,2): off the diagonal.
  EXPECT_NEAR(to_double(slice(full, {0, 0, 1, 0, 2, 1}, {1, 1, 2, 1, 3, 2}).tensor().at(0)), 0.5, 1e-12);
}

TEST(Transitions, S62_CheapAndDenseExtractionAgree) {
  const Model m =
      step_model({arg("x", {3}), hidden("c", {4}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
        in.set("c", 0.7 * in["c"] + tanh(matmul(in["x"], in["w"])) * in["h"]);
        in.set("h", tanh(in["c"]) * 0.5 + in["h"] * in["h"]);
        return in["h"];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(groups(g), "[c h]");
  const HiddenGroup& group = g.hidden_groups[0];
  ASSERT_TRUE(group.is_diagonal_recurrence);
  HiddenGroup dense = group;
  dense.is_diagonal_recurrence = false;
  const Values values(g, m);
  const Array cheap = diagonal_jacobian(group, values);
  ASSERT_EQ(cheap.shape(), (Shape{4, 2, 2}));
  expect_same(Arrays{cheap}, Arrays{diagonal_jacobian(dense, values)});
  expect_same(Arrays{cheap}, Arrays{blocks_of(group, full_jacobian(group, values))});
  EXPECT_GT(to_double(sum(square(cheap)).tensor().at(0)), 0.1);
}

TEST(Slab, S63_ConcatAndSplitCheckTheirArguments) {
  const Model m = step_model({arg("x", {4}), hidden("g", {4}), hidden("v", {4})}, [](In& in) {
    in.set("g", 0.8 * in["g"] + in["x"]);
    in.set("v", 0.9 * in["v"] + in["g"]);
    return in["v"];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  const HiddenGroup& group = g.hidden_groups[0];
  Random random(1);
  const Arrays states{random.f64({4}), random.f64({4})};
  EXPECT_THROW(group.concat_hidden(Arrays{states[0]}), ValueError);
  EXPECT_THROW(group.concat_hidden(Arrays{states[0], states[1], states[0]}), ValueError);
  EXPECT_THROW(group.split_hidden(zeros({4, 1}, Dtype::F64)), ValueError);
  EXPECT_THROW(group.split_hidden(zeros({4, 3}, Dtype::F64)), ValueError);
  EXPECT_EQ(group.concat_hidden(states).shape(), (Shape{4, 2}));
  expect_same(group.split_hidden(group.concat_hidden(states)), states);
}

TEST(Transitions, S64_ConstantsLeadAndHiddenStatesFollow) {
  const Model m = reference_model("cell_GRUCell");
  const ETraceGraph g = compile_etrace_graph(m);
  const HiddenGroup& group = g.hidden_groups[0];
  EXPECT_EQ(group.transition_jaxpr.invars, group.hidden_invars);
  EXPECT_EQ(group.transition_jaxpr_constvars().size(), 2U) << "1 - z and z·c";
  const Values values(g, m);
  expect_same(group.transition(values[group.hidden_invars], values[group.transition_jaxpr.constvars]),
              values[group.hidden_outvars]);
}

}  // namespace
}  // namespace etrace
