// Scenarios A and B: what a relation says about one operator, its operands and its tail.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// A: single operators ---------------------------------------------------------------------------------------

TEST(Operators, S1_DenseCell) {
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

TEST(Operators, S2_BatchedCellUsesBatchedOperator) {
  const Model m = step_model({arg("x", {2, 3}), hidden("h", {2, 4}), param("w", {7, 4})}, [](In& in) {
    in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["w"])));
    return in["h"];
  });
  EXPECT_EQ(compile_etrace_graph(m).hidden_param_op_relations[0].primitive, &etp_mm_p);
}

TEST(Operators, S3_ElementWiseHasNoX) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(in["h"] + element_wise(in["w"])));
        return in["h"];
      },
      {param("w", {4})});
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_FALSE(g.hidden_param_op_relations[0].x_var.has_value());
}

TEST(Operators, S4_Convolution) {
  // Channel-first rows of 5 positions; SAME padding keeps the shape of the state.
  const Model m =
      step_model({arg("x", {2, 3, 5}), hidden("h", {2, 4, 5}), param("kernel", {4, 3, 3})}, [](In& in) {
        in.set("h", tanh(0.5 * in["h"] + conv(in["x"], in["kernel"])));
        return in["h"];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(relations(g), "kernel->h");
  EXPECT_EQ(g.hidden_param_op_relations[0].primitive, &etp_conv_p);
}

TEST(Operators, S5_NamedLeavesShareAPath) {
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

TEST(Operators, S6_LeafAddedPlainlyIsNoOperand) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["P:W"]) + in["P:b"]));
        return in["h"];
      },
      {leaf("P", "W", 0, {7, 4}), leaf("P", "b", 1, {4})});
  ASSERT_EQ(g.hidden_param_op_relations.size(), 1U);
  const HiddenParamOpRelation& r = g.hidden_param_op_relations[0];
  ASSERT_EQ(r.trainables.size(), 1U);
  EXPECT_EQ(r.trainables[0].key, "weight");
  EXPECT_EQ(r.trainables[0].leaf, 0);
  EXPECT_TRUE(r.trainables[0].processing_chain.empty());
}

TEST(Operators, S7_MaskBeforeTheOperatorIsAProcessingChain) {
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

TEST(Operators, S8_WeightMadeOfTwoParametersNamesBoth) {
  const auto step = [](In& in) {
    in.set("h", tanh(matmul(in["x"], in["w1"] + in["w2"])));
    return in["h"];
  };
  const ETraceGraph g = compile_cell(step, {param("w1", {3, 4}), param("w2", {3, 4})});
  EXPECT_EQ(g.hidden_param_op_relations[0].trainables[0].leaves.size(), 2U);
  EXPECT_EQ(relations(compile_cell(step, {param("w1", {3, 4}), param("w2", {3, 4})}, compat())), "w1->h");
}

TEST(Operators, WeightThatDependsOnDataIsNoParameter) {
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

TEST(Tails, S9_LongTailIsOneRelation) {
  EXPECT_EQ(relations(compile_cell(
                [](In& in) {
                  in.set("h", tanh(tanh(matmul(cat(in["x"], in["h"]), in["w"]))));
                  return in["h"];
                },
                {param("w", {7, 4})})),
            "w->h");
}

TEST(Tails, S10_S11_ElementWiseOperatorIsCrossed) {
  for (const WeightFn& fn : {WeightFn{}, WeightFn{[](const Array& w) { return abs(w); }}}) {
    const ETraceGraph g = compile_cell(
        [&](In& in) {
          const Array scale = element_wise(in["w2"], fn);
          in.set("h", tanh(scale * matmul(cat(in["x"], in["h"]), in["w1"])));
          return in["h"];
        },
        {param("w1", {7, 4}), param("w2", {4})});
    EXPECT_EQ(relations(g), "w2->h w1->h");
  }
}

TEST(Tails, S12_S13_ChainOfMatmulsKeepsOnlyTheLast) {
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

Array partial_path(In& in) {
  const Array mid = matmul(cat(in["x"], in["h"]), in["w1"]);
  in.set("h", tanh(mid + matmul(mid, in["w2"])));
  return in["h"];
}
const Inputs kPartialPath{param("w1", {7, 4}), param("w2", {4, 4})};

TEST(Tails, S14_PartialPathIsMixed) {
  const ETraceGraph g = compile_cell(partial_path, kPartialPath);
  ASSERT_EQ(g.hidden_param_op_relations.size(), 2U);
  EXPECT_EQ(g.hidden_param_op_relations[0].path_classification[0], PathClassification::Mixed);
  EXPECT_EQ(g.hidden_param_op_relations[1].path_classification[0], PathClassification::AllDirect);
  EXPECT_EQ(count(g, Kind::RELATION_PARTIAL_PATH), 1U);
}

TEST(Tails, S15_ResidualIsDirect) {
  const Model m = step_model({arg("x", {4}), hidden("h", {4}), param("w", {8, 4})}, [](In& in) {
    in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["w"]) + in["x"]));
    return in["h"];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_EQ(g.hidden_param_op_relations[0].path_classification[0], PathClassification::AllDirect);
}

TEST(Tails, S16_OutputThatIsTheStateHasNoTail) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", matmul(cat(in["x"], in["h"]), in["w"]));
        return in["h"] * 2.0;
      },
      {param("w", {7, 4})});
  EXPECT_TRUE(g.hidden_param_op_relations[0].y_to_hidden_group_jaxprs[0].eqns.empty());
}

// ∂h/∂y [4,4] of a relation's tail, at the values of one run.
Array tail_jacobian(const ETraceGraph& g, const Model& m, std::size_t relation) {
  const HiddenParamOpRelation& r = g.hidden_param_op_relations[relation];
  const Jaxpr& tail = r.y_to_hidden_group_jaxprs[0];
  const Values values(g, m);
  const Arrays consts = values[tail.constvars];
  const Function f = [&](ArraySpan y) { return eval_jaxpr(tail, consts, y); };
  return jacfwd(f)(Arrays{values[r.y_var]})[0];
}

TEST(Tails, S17_StopGradientGivesARelationWithoutInfluence) {
  const Model m = cell(
      [](In& in) {
        in.set("h", 0.5 * in["h"] + stop_gradient(matmul(in["x"], in["w"])));
        return in["h"];
      },
      {param("w", {3, 4})});
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(relations(g), "w->h");
  expect_same(Arrays{tail_jacobian(g, m, 0)}, Arrays{zeros({4, 4}, Dtype::F64)});
}

TEST(Tails, S18_DerivativeOfATanhCell) {
  const Model dense = cell(
      [](In& in) {
        in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["w"])));
        return in["h"];
      },
      {param("w", {7, 4})});
  const Model elementwise = step_model({arg("x", {4}), hidden("h", {4}), param("w", {4})}, [](In& in) {
    in.set("h", tanh(in["h"] + in["x"] + element_wise(in["w"])));
    return in["h"];
  });
  // The second operator's output is a constant of the first one's tail, so both have the same derivative.
  const Model partial = cell(partial_path, kPartialPath);
  for (const Model* m : {&dense, &elementwise, &partial}) {
    const ETraceGraph g = compile_etrace_graph(*m);
    const Array h = Values(g, *m)[g.module_info.hidden[0].outvar];
    for (std::size_t i = 0; i < g.hidden_param_op_relations.size(); ++i)
      expect_same(Arrays{tail_jacobian(g, *m, i)}, Arrays{diag(1.0 - h * h)});
  }
}

TEST(Tails, S18_DerivativeAgreesWithDifferences) {
  const Model m = cell(partial_path, kPartialPath);
  const ETraceGraph g = compile_etrace_graph(m);
  const Values values(g, m);
  for (std::size_t i = 0; i < 2; ++i) {
    const HiddenParamOpRelation& r = g.hidden_param_op_relations[i];
    const Jaxpr& tail = r.y_to_hidden_group_jaxprs[0];
    const Tensors direction{Random(3).tensor(r.y_var.aval)}, at{values[r.y_var].tensor()};
    const Tensors difference = directional_difference(
        [&](std::span<const Tensor> y) {
          return to_tensors(eval_jaxpr(tail, values[tail.constvars], to_arrays(y)));
        },
        at, direction, 1e-4);
    expect_same(Arrays{dot(tail_jacobian(g, m, i), Array(direction[0]))}, Arrays{Array(difference[0])}, 1e-9);
  }
}

TEST(Tails, TailThatMovesPositionsIsReported) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(roll(matmul(in["x"], in["w"]), 1, 0)));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_EQ(count(g, Kind::TRANSITION_TAIL_BOUNDED), 1U);
  EXPECT_FALSE(g.hidden_param_op_relations[0].tail_reasons[0].empty());
}

}  // namespace
}  // namespace etrace
