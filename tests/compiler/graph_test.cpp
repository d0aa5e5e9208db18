// Scenarios of relation and group discovery: what the compiler finds in small steps written for the purpose.
#include <gtest/gtest.h>

#include "etrace/compiler.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "support/step_model.h"

namespace etrace {
namespace {

using testing::arg;
using testing::hidden;
using testing::In;
using testing::leaf;
using testing::param;
using testing::step_model;

using Kind = DiagnosticKind;

Array cat(const Array& a, const Array& b) { return concatenate(Arrays{a, b}, -1); }

std::size_t count(const ETraceGraph& g, Kind kind) {
  std::size_t n = 0;
  for (const CompilationRecord& r : g.diagnostics) n += r.kind == kind ? 1 : 0;
  return n;
}

// "w->h w2->h,c": every relation, in order.
std::string relations(const ETraceGraph& g) {
  std::string text;
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
    text += (text.empty() ? "" : " ") + to_string(r.path()) + "->";
    for (std::size_t i = 0; i < r.connected_hidden_paths.size(); ++i)
      text += (i ? "," : "") + to_string(r.connected_hidden_paths[i]);
  }
  return text;
}

// "[h] [c d]"
std::string groups(const ETraceGraph& g) {
  std::string text;
  for (const HiddenGroup& group : g.hidden_groups) {
    text += text.empty() ? "[" : " [";
    for (std::size_t i = 0; i < group.hidden_paths.size(); ++i)
      text += (i ? " " : "") + to_string(group.hidden_paths[i]);
    text += "]";
  }
  return text;
}

ETraceGraph compile_cell(const std::function<Array(In&)>& step,
                         const std::vector<testing::StepInput>& more = {},
                         const CompileOptions& options = {}) {
  std::vector<testing::StepInput> inputs{arg("x", {3}), hidden("h", {4})};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return compile_etrace_graph(step_model(inputs, step), options);
}

CompileOptions mixing() {
  CompileOptions o;
  o.include_recurrent_mixing = true;
  return o;
}

CompileOptions compat() {
  CompileOptions o;
  o.compat = Compat::Braintrace;
  return o;
}

// A: single operators ---------------------------------------------------------------------------------------

TEST(Relations, DenseCell) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["w"])));
        return in["h"];
      },
      {param("w", {7, 4})});
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_EQ(g.hidden_param_op_relations[0].primitive, &etp_mv_p);
  EXPECT_EQ(groups(g), "[h]");
  EXPECT_TRUE(g.hidden_groups[0].transition_jaxpr.eqns.empty())
      << "the recurrence runs through the operator: zero in diagonal scope";
}

TEST(Relations, BatchedCellUsesBatchedOperator) {
  const Model m = step_model({arg("x", {2, 3}), hidden("h", {2, 4}), param("w", {7, 4})}, [](In& in) {
    in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["w"])));
    return in["h"];
  });
  EXPECT_EQ(compile_etrace_graph(m).hidden_param_op_relations[0].primitive, &etp_mm_p);
}

TEST(Relations, ElementWiseHasNoX) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(in["h"] + element_wise(in["w"])));
        return in["h"];
      },
      {param("w", {4})});
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_FALSE(g.hidden_param_op_relations[0].x_var.has_value());
}

TEST(Relations, NamedLeavesShareAPath) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["W:weight"], in["W:bias"])));
        return in["h"];
      },
      {leaf("W", "bias", 0, {4}), leaf("W", "weight", 1, {7, 4})});
  ASSERT_EQ(g.hidden_param_op_relations.size(), 1U);
  const HiddenParamOpRelation& r = g.hidden_param_op_relations[0];
  EXPECT_EQ(r.trainable("weight")->leaf, 1);
  EXPECT_EQ(r.trainable("bias")->leaf, 0);
  EXPECT_EQ(r.trainable("weight")->path, r.trainable("bias")->path);
  EXPECT_TRUE(r.trainable("weight")->processing_chain.empty());
}

TEST(Relations, MaskBeforeTheOperatorIsAProcessingChain) {
  const Array mask = array(std::vector<double>(28, 0.5), {7, 4}, Dtype::F64);
  const ETraceGraph g = compile_cell(
      [&](In& in) {
        in.set("h", tanh(matmul(cat(in["x"], in["h"]), mask * in["w"])));
        return in["h"];
      },
      {param("w", {7, 4})});
  EXPECT_EQ(relations(g), "w->h");
  const TrainableSource& t = g.hidden_param_op_relations[0].trainables[0];
  EXPECT_EQ(t.processing_chain, std::vector<std::string>{"mul"});
  ASSERT_EQ(t.leaves.size(), 1U);
  EXPECT_EQ(t.processing.invars.size(), 1U);
}

TEST(Relations, WeightMadeOfTwoParametersNamesBoth) {
  const auto step = [](In& in) {
    in.set("h", tanh(matmul(in["x"], in["w1"] + in["w2"])));
    return in["h"];
  };
  const ETraceGraph g = compile_cell(step, {param("w1", {3, 4}), param("w2", {3, 4})});
  EXPECT_EQ(g.hidden_param_op_relations[0].trainables[0].leaves.size(), 2U);
  EXPECT_EQ(relations(compile_cell(step, {param("w1", {3, 4}), param("w2", {3, 4})}, compat())), "w1->h");
}

TEST(Relations, WeightThatDependsOnDataIsNoParameter) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(matmul(in["x"], in["w"] * sum(in["x"]))));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_EQ(relations(g), "");
  EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_NO_PARAMSTATE), 1U);
}

// B: tails --------------------------------------------------------------------------------------------------

TEST(Relations, ElementWiseOperatorOnTheTailIsCrossed) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(element_wise(in["w2"]) * matmul(cat(in["x"], in["h"]), in["w1"])));
        return in["h"];
      },
      {param("w1", {7, 4}), param("w2", {4})});
  EXPECT_EQ(g.hidden_param_op_relations.size(), 2U);
}

TEST(Relations, ChainOfMatmulsKeepsOnlyTheLast) {
  for (int k = 1; k <= 5; ++k) {
    std::vector<testing::StepInput> weights;
    for (int i = 0; i < k; ++i) weights.push_back(param("w" + std::to_string(i), {i == 0 ? 7 : 4, 4}));
    const ETraceGraph g = compile_cell(
        [&](In& in) {
          Array y = cat(in["x"], in["h"]);
          for (int i = 0; i < k; ++i) y = matmul(y, in["w" + std::to_string(i)]);
          in.set("h", tanh(y));
          return in["h"];
        },
        weights);
    EXPECT_EQ(relations(g), "w" + std::to_string(k - 1) + "->h");
    EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT), static_cast<std::size_t>(k - 1));
    EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_NON_TEMPORAL), 0U);
  }
}

TEST(Relations, PartialPathIsMixed) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        const Array mid = matmul(cat(in["x"], in["h"]), in["w1"]);
        in.set("h", tanh(mid + matmul(mid, in["w2"])));
        return in["h"];
      },
      {param("w1", {7, 4}), param("w2", {4, 4})});
  ASSERT_EQ(g.hidden_param_op_relations.size(), 2U);
  EXPECT_EQ(g.hidden_param_op_relations[0].path_classification[0], PathClassification::Mixed);
  EXPECT_EQ(g.hidden_param_op_relations[1].path_classification[0], PathClassification::AllDirect);
  EXPECT_EQ(count(g, Kind::RELATION_PARTIAL_PATH), 1U);
}

TEST(Relations, OutputThatIsTheStateHasAnEmptyTail) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", matmul(cat(in["x"], in["h"]), in["w"]));
        return in["h"] * 2.0;
      },
      {param("w", {7, 4})});
  EXPECT_TRUE(g.hidden_param_op_relations[0].y_to_hidden_group_jaxprs[0].eqns.empty());
}

TEST(Relations, TailThatMovesPositionsIsReported) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(roll(matmul(in["x"], in["w"]), 1, 0)));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_EQ(count(g, Kind::TRANSITION_TAIL_BOUNDED), 1U);
  EXPECT_FALSE(g.hidden_param_op_relations[0].tail_reasons[0].empty());
}

// C: fan-in, fan-out, layers --------------------------------------------------------------------------------

TEST(Relations, OneOutputIntoTwoGroups) {
  const Model m =
      step_model({arg("x", {3}), hidden("h1", {4}), hidden("h2", {4}), param("w", {3, 4})}, [](In& in) {
        const Array y = matmul(in["x"], in["w"]);
        in.set("h1", 0.5 * in["h1"] + y);
        in.set("h2", 0.7 * in["h2"] + tanh(y));
        return in["h1"];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(relations(g), "w->h1,h2");
  EXPECT_EQ(g.hidden_param_op_relations[0].hidden_groups.size(), 2U);
  EXPECT_EQ(g.hidden_param_op_relations[0].y_to_hidden_group_jaxprs.size(), 2U);
}

TEST(Relations, StackedLayersStayApartInBothScopes) {
  for (const CompileOptions& options : {CompileOptions{}, mixing()})
    for (int depth = 1; depth <= 4; ++depth) {
      std::vector<testing::StepInput> inputs{arg("x", {4})};
      std::string expected;
      for (int i = 0; i < depth; ++i) {
        const std::string cell = "cell" + std::to_string(i);
        inputs.push_back(hidden(cell + "/h", {4}));
        inputs.push_back(param(cell + "/w", {8, 4}));
        expected += (i ? " " : "") + cell + "/w->" + cell + "/h";
      }
      const Model m = step_model(inputs, [&](In& in) {
        Array y = in["x"];
        for (int i = 0; i < depth; ++i) {
          const std::string cell = "cell" + std::to_string(i);
          y = tanh(matmul(cat(y, in[cell + "/h"]), in[cell + "/w"]));
          in.set(cell + "/h", y);
        }
        return y;
      });
      const ETraceGraph g = compile_etrace_graph(m, options);
      EXPECT_EQ(relations(g), expected);
      EXPECT_EQ(g.hidden_groups.size(), static_cast<std::size_t>(depth));
    }
}

TEST(Relations, TiedWeightHasOneRelationPerCall) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(matmul(in["h"], in["w"]) + matmul(tanh(in["h"]), in["w"])));
        return in["h"];
      },
      {param("w", {4, 4})});
  ASSERT_EQ(g.hidden_param_op_relations.size(), 2U);
  EXPECT_FALSE(g.hidden_param_op_relations[0].y_var == g.hidden_param_op_relations[1].y_var);
}

// D: exclusions ---------------------------------------------------------------------------------------------

TEST(Relations, PlainProductIsNotTraced) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(dot(in["x"], in["w_in"]) + matmul(in["h"], in["w_rec"])));
        return in["h"];
      },
      {param("w_in", {3, 4}), param("w_rec", {4, 4})});
  EXPECT_EQ(relations(g), "w_rec->h");
  const CompilationReport report(g);
  ASSERT_EQ(report.excluded_weights.size(), 1U);
  EXPECT_FALSE(report.excluded_weights[0].reason.has_value());
}

TEST(Relations, TwoLayerReadoutIsNonTemporal) {
  const auto step = [](In& in) {
    in.set("h", 0.9 * in["h"] + matmul(in["x"], in["w"]));
    return matmul(tanh(matmul(in["h"], in["o1"])), in["o2"]);
  };
  const std::vector<testing::StepInput> weights{param("w", {3, 4}), param("o1", {4, 5}), param("o2", {5, 2})};
  const ETraceGraph g = compile_cell(step, weights);
  EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_NON_TEMPORAL), 2U);
  EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT), 0U);
  const ETraceGraph reference = compile_cell(step, weights, compat());
  EXPECT_EQ(count(reference, Kind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT), 1U)
      << "the reference blames the second readout";
}

TEST(Relations, ConstantWeightAndBias) {
  const Array constant = array(std::vector<double>(12, 0.1), {3, 4}, Dtype::F64),
              b = array({1, 2, 3, 4}, Dtype::F64);
  const ETraceGraph none = compile_cell([&](In& in) {
    in.set("h", 0.5 * in["h"] + matmul(in["x"], constant));
    return in["h"];
  });
  EXPECT_EQ(count(none, Kind::RELATION_EXCLUDED_NO_PARAMSTATE), 1U);
  const ETraceGraph bias_only = compile_cell(
      [&](In& in) {
        in.set("h", 0.5 * in["h"] + matmul(in["x"], constant, in["b"]));
        return in["h"];
      },
      {param("b", {4})});
  ASSERT_EQ(bias_only.hidden_param_op_relations.size(), 1U);
  EXPECT_EQ(bias_only.hidden_param_op_relations[0].trainables[0].key, "bias");
  const ETraceGraph weight_only = compile_cell(
      [&](In& in) {
        in.set("h", 0.5 * in["h"] + matmul(in["x"], in["w"], b));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_EQ(count(weight_only, Kind::TRAINABLE_INVAR_NOT_PARAMSTATE), 1U);
  EXPECT_EQ(weight_only.hidden_param_op_relations[0].trainable("bias"), nullptr);
}

TEST(Relations, GroupStateComparesWithoutItsStateAxis) {
  const auto inputs = std::vector<testing::StepInput>{arg("x", {3}), hidden("s", {4, 2}, "HiddenGroupState"),
                                                      param("w", {3, 4})};
  const auto step = [](In& in) {
    const Arrays parts = split(in["s"], {1, 1}, 1);
    const Array v = squeeze(parts[0], {1}), a = squeeze(parts[1], {1});
    const Array v2 = 0.9 * v - 0.1 * a + matmul(in["x"], in["w"]);
    in.set("s", stack(Arrays{v2, 0.8 * a + 0.1 * v}, 1));
    return v2;
  };
  const ETraceGraph g = compile_etrace_graph(step_model(inputs, step));
  EXPECT_EQ(relations(g), "w->s");
  EXPECT_EQ(g.hidden_groups[0].num_state(), 2);
  EXPECT_TRUE(g.hidden_groups[0].is_diagonal_recurrence) << g.hidden_groups[0].mixing_reason;
  EXPECT_TRUE(g.hidden_param_op_relations[0].tail_reasons[0].empty())
      << g.hidden_param_op_relations[0].tail_reasons[0];
  EXPECT_EQ(relations(compile_etrace_graph(step_model(inputs, step), compat())), "")
      << "the reference drops it (D7)";
}

// F: groups -------------------------------------------------------------------------------------------------

TEST(Groups, OneWayCouplingMerges) {
  const Model m = step_model({arg("x", {4}), hidden("g", {4}), hidden("v", {4})}, [](In& in) {
    in.set("g", 0.8 * in["g"] + in["x"]);
    in.set("v", 0.9 * in["v"] + in["g"]);
    return in["v"];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(groups(g), "[g v]");
  EXPECT_EQ(count(g, Kind::HIDDEN_GROUP_MERGED), 1U);
}

TEST(Groups, OneEquationIsTreatedLikeTwo) {
  const Model m = step_model({arg("x", {4}), hidden("h1", {4}), hidden("h2", {4})}, [](In& in) {
    in.set("h1", tanh(in["h1"]));
    in.set("h2", 0.9 * in["h2"] + in["h1"]);
    return in["h2"];
  });
  EXPECT_EQ(groups(compile_etrace_graph(m)), "[h1 h2]");
  EXPECT_EQ(groups(compile_etrace_graph(m, compat())), "[h1] [h2]") << "the reference's asymmetry (D16)";
}

TEST(Groups, TwoHiddenStatesInOneEquation) {
  const Model square = step_model({arg("x", {4}), hidden("h", {4})}, [](In& in) {
    in.set("h", in["h"] * in["h"] + in["x"]);
    return in["h"];
  });
  EXPECT_EQ(groups(compile_etrace_graph(square)), "[h]");
  EXPECT_THROW(compile_etrace_graph(square, compat()), ValueError);
  const Model two = step_model({arg("x", {4}), hidden("h1", {4}), hidden("h2", {4})}, [](In& in) {
    const Array s = in["h1"] + in["h2"];
    in.set("h1", tanh(s));
    in.set("h2", 0.5 * in["h2"]);
    return s;
  });
  EXPECT_EQ(groups(compile_etrace_graph(two)), "[h1 h2]");
}

TEST(Groups, RecurrentProductsAreCutInDiagonalScopeOnly) {
  const Array r = array(std::vector<double>(16, 0.1), {4, 4}, Dtype::F64);
  const auto step = [&](In& in) {
    in.set("h", tanh(dot(in["h"], r) + in["h"] * 0.5 + matmul(in["x"], in["w"])));
    return in["h"];
  };
  const ETraceGraph diagonal = compile_cell(step, {param("w", {3, 4})});
  EXPECT_TRUE(diagonal.hidden_groups[0].is_diagonal_recurrence);
  const ETraceGraph coupled = compile_cell(step, {param("w", {3, 4})}, mixing());
  EXPECT_FALSE(coupled.hidden_groups[0].is_diagonal_recurrence);
  bool has_product = false;
  for (const Eqn& e : coupled.hidden_groups[0].transition_jaxpr.eqns)
    has_product = has_product || e.prim == &dot_general_p;
  EXPECT_TRUE(has_product);
}

TEST(Groups, ReductionIsNotDiagonal) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", in["h"] - sum(in["h"]) + matmul(in["x"], in["w"]));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_FALSE(g.hidden_groups[0].is_diagonal_recurrence);
  EXPECT_EQ(count(g, Kind::TRANSITION_MIXES_POSITIONS), 1U);
}

TEST(Groups, AliasedStatesStayApart) {
  const Model m = step_model({arg("x", {4}), hidden("a", {4}), hidden("b", {4})}, [](In& in) {
    const Array next = tanh(0.5 * in["a"] + in["x"]);
    in.set("a", next);
    in.set("b", next);
    return next;
  });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(groups(g), "[a b]");
  EXPECT_EQ(g.hidden_perturb->perturb_vars.size(), 2U);
}

TEST(Groups, JacobiansAgree) {
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
  // Constants of the transition come from one run of the extended program.
  Arrays inputs{array({0.3, -0.2, 0.9}, Dtype::F64)};
  for (const InputRecord& in : m.inputs)
    if (in.role != Role::Arg) inputs.push_back(in.init);
  const Arrays out = eval_jaxpr(g.module_info.closed_jaxpr, inputs);
  const auto& outs = g.module_info.jaxpr().outs;
  Arrays consts;
  for (const Var& v : group.transition_jaxpr.constvars)
    for (std::size_t i = 0; i < outs.size(); ++i)
      if (const Var* o = as_var(outs[i]); o != nullptr && *o == v) {
        consts.push_back(out[i]);
        break;
      }
  ASSERT_EQ(consts.size(), group.transition_jaxpr.constvars.size());
  const Arrays state{inputs[1], inputs[2]};
  const Tensor cheap = group.diagonal_jacobian(state, consts).tensor(),
               full = group.full_jacobian(state, consts).tensor();
  HiddenGroup coupled = group;
  coupled.is_diagonal_recurrence = false;
  const Tensor block = coupled.diagonal_jacobian(state, consts).tensor();
  ASSERT_EQ(cheap.shape(), (Shape{4, 2, 2}));
  ASSERT_EQ(full.shape(), (Shape{4, 2, 4, 2}));
  double norm = 0.0;
  for (std::int64_t p = 0; p < 4; ++p)
    for (std::int64_t a = 0; a < 2; ++a)
      for (std::int64_t b = 0; b < 2; ++b) {
        const double exact = to_double(full.at(((p * 2 + a) * 4 + p) * 2 + b));
        norm += exact * exact;
        EXPECT_NEAR(to_double(cheap.at((p * 2 + a) * 2 + b)), exact, 1e-12);
        EXPECT_NEAR(to_double(block.at((p * 2 + a) * 2 + b)), exact, 1e-12);
      }
  EXPECT_GT(norm, 0.1);
}

TEST(Groups, ConcatAndSplitCheckTheirArguments) {
  const ETraceGraph g = compile_cell([](In& in) {
    in.set("h", 0.5 * in["h"]);
    return in["h"];
  });
  const HiddenGroup& group = g.hidden_groups[0];
  EXPECT_THROW(group.concat_hidden(Arrays{}), ValueError);
  EXPECT_THROW(group.split_hidden(zeros({4, 3}, Dtype::F64)), ValueError);
  EXPECT_EQ(group.split_hidden(zeros({4, 1}, Dtype::F64))[0].shape(), (Shape{4}));
}

// G: perturbation -------------------------------------------------------------------------------------------

TEST(Perturbation, ShiftsTheStateAndItsReaders) {
  const ETraceGraph g = compile_cell([](In& in) {
    in.set("h", 0.5 * in["h"]);
    return in["h"] * 3.0;
  });
  const HiddenPerturbation& p = *g.hidden_perturb;
  ASSERT_EQ(p.perturb_vars.size(), 1U);
  const Arrays inputs{zeros({3}, Dtype::F64), zeros({4}, Dtype::F64)};
  const Arrays shift{array({1, 2, 3, 4}, Dtype::F64)};
  const Arrays out = p.eval_jaxpr(inputs, shift);
  EXPECT_DOUBLE_EQ(to_double(out[0].tensor().at(1)), 6.0);
  EXPECT_DOUBLE_EQ(to_double(out[1].tensor().at(1)), 2.0);
  EXPECT_THROW(p.perturb_data_to_hidden_group_data(Arrays{}, g.hidden_groups), ValueError);
  EXPECT_EQ(p.perturb_data_to_hidden_group_data(shift, g.hidden_groups)[0].shape(), (Shape{4, 1}));
}

TEST(Perturbation, ReadOnlyState) {
  const Model m = step_model({arg("x", {4}), hidden("r", {4}), hidden("h", {4})}, [](In& in) {
    in.set("h", tanh(0.5 * in["h"] + in["x"] + in["r"]));
    return in["h"];
  });
  for (const CompileOptions& options : {CompileOptions{}, compat()}) {
    const ETraceGraph g = compile_etrace_graph(m, options);
    const HiddenPerturbation& p = *g.hidden_perturb;
    ASSERT_EQ(p.perturb_vars.size(), 2U);
    const Arrays inputs{zeros({4}, Dtype::F64), zeros({4}, Dtype::F64), zeros({4}, Dtype::F64)};
    const Arrays out = p.eval_jaxpr(inputs, Arrays{ones({4}, Dtype::F64), zeros({4}, Dtype::F64)});
    EXPECT_DOUBLE_EQ(to_double(out[1].tensor().at(0)), 1.0) << "the state itself shifts";
    EXPECT_DOUBLE_EQ(to_double(out[2].tensor().at(0)), 0.0) << "what read it at entry does not move";
  }
}

// I, J: control flow ----------------------------------------------------------------------------------------

Array two_way(In& in) {
  const Arrays drive = cond(
      sum(in["x"]) > 0.0, [&](ArraySpan a) { return Arrays{matmul(a[0], a[1])}; },
      [&](ArraySpan a) { return Arrays{matmul(a[0], a[2])}; }, Arrays{in["x"], in["wa"], in["wb"]});
  in.set("h", 0.9 * in["h"] + tanh(drive[0]));
  return in["h"];
}

TEST(ControlFlow, ConditionalBecomesASelection) {
  const ETraceGraph g = compile_cell(two_way, {param("wa", {3, 4}), param("wb", {3, 4})});
  EXPECT_EQ(g.hidden_param_op_relations.size(), 2U);
  EXPECT_EQ(count(g, Kind::COND_IF_CONVERTED), 1U);
  for (const Eqn& e : g.module_info.jaxpr().eqns) EXPECT_NE(e.prim, &cond_p);
}

TEST(ControlFlow, OpaqueConditionalRefusesWeights) {
  CompileOptions options;
  options.control_flow.cond = ControlFlowPolicy::Cond::Opaque;
  try {
    compile_cell(two_way, {param("wa", {3, 4}), param("wb", {3, 4})}, options);
    FAIL() << "a weight in an opaque conditional must be refused";
  } catch (const WithRecords<NotSupportedError>& e) {
    EXPECT_NE(std::string(e.what()).find("weight states"), std::string::npos);
    ASSERT_FALSE(e.records.empty());
    EXPECT_EQ(e.records.back().kind, Kind::WEIGHT_IN_CONTROL_FLOW);
    EXPECT_EQ(e.records.back().level, DiagnosticLevel::Error);
  }
}

Array inner_loop(In& in, std::int64_t length, bool mixing_body) {
  const Array xs = broadcast_to(in["x"], {length, 3});
  const ScanResult r = scan(
      [&](ArraySpan c, ArraySpan x) -> ScanResult {
        const Array drive = matmul(x[0], in["w"]);
        return {{0.9 * c[0] + 0.3 * tanh(mixing_body ? drive + matmul(c[0], in["u"]) : drive)}, {}};
      },
      {in["h"]}, {xs});
  in.set("h", r.carry[0]);
  return in["h"];
}

TEST(ControlFlow, ShortLoopIsUnrolled) {
  const ETraceGraph g =
      compile_cell([](In& in) { return inner_loop(in, 3, false); }, {param("w", {3, 4}), param("u", {4, 4})});
  EXPECT_EQ(count(g, Kind::SCAN_UNROLLED), 1U);
  EXPECT_EQ(g.hidden_param_op_relations.size(), 3U) << "each sub-step reaches the state directly";
  check(g.module_info.closed_jaxpr);
}

TEST(ControlFlow, LongLoopIsTracedInside) {
  for (const bool mixing_body : {false, true}) {
    const ETraceGraph g = compile_cell([&](In& in) { return inner_loop(in, 40, mixing_body); },
                                       {param("w", {3, 4}), param("u", {4, 4})});
    EXPECT_EQ(count(g, Kind::SCAN_DESCENT_APPLIED), 1U);
    ASSERT_EQ(g.hidden_param_op_relations.size(), mixing_body ? 2U : 1U);
    ASSERT_EQ(g.hidden_groups.size(), 1U);
    ASSERT_TRUE(g.hidden_groups[0].descent.has_value());
    const ScanInfo& scan = g.hidden_groups[0].descent->scan;
    const Var* y = scan.outer(g.hidden_param_op_relations[0].y_var);
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(y->aval.shape, (Shape{40, 4}));
    check(g.module_info.closed_jaxpr);
    check(g.hidden_perturb->perturb_jaxpr);
  }
}

TEST(ControlFlow, DescentOffRefusesTheLoop) {
  CompileOptions options;
  options.control_flow.scan_descent = ControlFlowPolicy::Descent::Off;
  EXPECT_THROW(compile_cell([](In& in) { return inner_loop(in, 40, false); },
                            {param("w", {3, 4}), param("u", {4, 4})}, options),
               NotSupportedError);
}

TEST(ControlFlow, IterationLimitIsExact) {
  CompileOptions options;
  options.control_flow.fixpoint_iteration_limit = 2;
  EXPECT_NO_THROW(compile_cell(two_way, {param("wa", {3, 4}), param("wb", {3, 4})}, options));
  options.control_flow.fixpoint_iteration_limit = 1;
  try {
    compile_cell(two_way, {param("wa", {3, 4}), param("wb", {3, 4})}, options);
    FAIL();
  } catch (const CompilationError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("fixpoint_iteration_limit=1"), std::string::npos);
    EXPECT_NE(text.find("branches=2"), std::string::npos);
  }
  options.control_flow.fixpoint_iteration_limit = 0;
  EXPECT_THROW(compile_cell(two_way, {param("wa", {3, 4}), param("wb", {3, 4})}, options), ValueError);
}

Array settle(In& in, bool weight_inside) {
  const Array pre = matmul(in["x"], in["w"]) + 0.8 * in["h"];
  const Arrays out = while_loop([](ArraySpan c) { return c[1] < 3; },
                                [&](ArraySpan c) {
                                  const Array s = weight_inside ? matmul(c[0], in["u"]) : c[0];
                                  return Arrays{c[0] + 0.5 * tanh(pre - s), c[1] + Array(1)};
                                },
                                {in["h"], full({}, std::int64_t{0}, Dtype::I32)});
  in.set("h", out[0]);
  return in["h"];
}

TEST(ControlFlow, WhileProducesAHiddenState) {
  const std::vector<testing::StepInput> weights{param("w", {3, 4}), param("u", {4, 4})};
  const ETraceGraph g = compile_cell([](In& in) { return settle(in, false); }, weights);
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_GE(count(g, Kind::CONTROL_FLOW_OPAQUE_FWD), 1U);
  try {
    compile_cell([](In& in) { return settle(in, true); }, weights);
    FAIL();
  } catch (const NotSupportedError& e) {
    EXPECT_NE(std::string(e.what()).find("while"), std::string::npos);
  }
  CompileOptions options;
  options.control_flow.while_hidden = ControlFlowPolicy::WhileHidden::Error;
  EXPECT_THROW(compile_cell([](In& in) { return settle(in, false); }, weights, options), NotSupportedError);
}

TEST(ControlFlow, OperatorInsideACustomDerivativeIsReported) {
  const auto step = [](In& in) {
    const Function f = custom_jvp([](ArraySpan a) { return Arrays{tanh(matmul(a[0], a[1]))}; },
                                  [](ArraySpan a) {
                                    return Arrays{tanh(matmul(a[0], a[1])), matmul(a[2], a[1])};
                                  });
    in.set("h", 0.5 * in["h"] + f(Arrays{in["x"], in["w"]})[0]);
    return in["h"];
  };
  EXPECT_THROW(compile_cell(step, {param("w", {3, 4})}), NotSupportedError);
  CompileOptions options;
  options.control_flow.etp_in_control_flow = ControlFlowPolicy::EtpInside::Exclude;
  EXPECT_EQ(count(compile_cell(step, {param("w", {3, 4})}, options), Kind::PRIMITIVE_INSIDE_CONTROL_FLOW),
            1U);
  EXPECT_EQ(compile_cell(step, {param("w", {3, 4})}, compat()).diagnostics.size(), 0U)
      << "the reference says nothing (D1)";
}

// K: SnAp, strictness, determinism --------------------------------------------------------------------------

CompileOptions snap(std::int64_t n) {
  CompileOptions o = mixing();
  o.sparse_n = n;
  return o;
}

Array ring(In& in) {
  const SparsePattern pattern = SparsePattern::coo(4, 4, {0, 1, 2, 3}, {1, 2, 3, 0});
  in.set("h", tanh(0.5 * in["h"] + sparse_matmul(in["h"], in["w"], pattern) + dot(in["x"], in["win"])));
  return in["h"];
}

TEST(SnAp, NeighboursFollowTheRing) {
  const std::vector<testing::StepInput> weights{param("w", {4}), param("win", {3, 4})};
  for (std::int64_t n = 2; n <= 4; ++n) {
    const ETraceGraph g = compile_cell(ring, weights, snap(n));
    ASSERT_TRUE(g.hidden_groups[0].snap.has_value());
    const PositionPattern& p = *g.hidden_groups[0].snap;
    EXPECT_FALSE(p.conservative) << p.reason;
    EXPECT_EQ(p.num_neighbour(), static_cast<std::size_t>(n));
    EXPECT_EQ(p.neighbours[0][0], 0);
    EXPECT_EQ(p.neighbours[0][1], 1) << "position 0 influences position 1";
  }
}

TEST(SnAp, OptionsAreChecked) {
  const std::vector<testing::StepInput> weights{param("w", {4}), param("win", {3, 4})};
  CompileOptions without = snap(2);
  without.include_recurrent_mixing = false;
  EXPECT_THROW(compile_cell(ring, weights, without), NotSupportedError);
  EXPECT_THROW(compile_cell(ring, weights, snap(0)), ValueError);
  CompileOptions small = snap(2);
  small.snap_max_jacobian_elements = 8;
  EXPECT_THROW(compile_cell(ring, weights, small), NotSupportedError);
}

TEST(SnAp, TwoMixingsAreConservative) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(matmul(matmul(in["h"], in["a"]), in["b"])));
        return in["h"];
      },
      {param("a", {4, 4}), param("b", {4, 4})}, snap(2));
  EXPECT_EQ(count(g, Kind::SNAP_PATTERN_CONSERVATIVE), 1U);
  EXPECT_NE(g.hidden_groups[0].snap->reason.find("more than one"), std::string::npos);
}

TEST(Compile, StrictModeTurnsWarningsIntoErrors) {
  const auto step = [](In& in) {
    in.set("h", 0.9 * in["h"] + matmul(in["x"], in["w"]));
    return matmul(in["h"], in["o"]);
  };
  CompileOptions strict;
  strict.strict = true;
  EXPECT_NO_THROW(compile_cell(step, {param("w", {3, 4}), param("o", {4, 2})}));
  EXPECT_THROW(compile_cell(step, {param("w", {3, 4}), param("o", {4, 2})}, strict), CompilationError);
}

TEST(Compile, WrittenParameterIsRefused) {
  EXPECT_THROW(compile_cell(
                   [](In& in) {
                     in.set("w", in["w"] * 2.0);
                     in.set("h", 0.9 * in["h"] + matmul(in["x"], in["w"]));
                     return in["h"];
                   },
                   {param("w", {3, 4})}),
               NotSupportedError);
}

TEST(Compile, TwiceTheSame) {
  const std::vector<testing::StepInput> weights{param("wa", {3, 4}), param("wb", {3, 4})};
  const ETraceGraph a = compile_cell(two_way, weights), b = compile_cell(two_way, weights);
  EXPECT_EQ(relations(a), relations(b));
  EXPECT_EQ(to_string(a.module_info.jaxpr()), to_string(b.module_info.jaxpr()));
  ASSERT_EQ(a.diagnostics.size(), b.diagnostics.size());
  for (std::size_t i = 0; i < a.diagnostics.size(); ++i)
    EXPECT_EQ(to_string(a.diagnostics[i]), to_string(b.diagnostics[i]));
}

}  // namespace
}  // namespace etrace
