// Scenarios C and D: several operators, layers and modules; and what is left out, with its reason.
#include "compiler/scenario.h"
#include "etrace/module.h"

namespace etrace {
namespace {

using namespace testing;

// C: fan-in, fan-out, layers --------------------------------------------------------------------------------

TEST(Layers, S19_TwoOperatorsIntoOneState) {
  EXPECT_EQ(relations(compile_cell(
                [](In& in) {
                  const Array drive = matmul(in["x"], in["w_in"]);
                  in.set("h", tanh(drive + matmul(in["h"], in["w_rec"])));
                  return in["h"];
                },
                {param("w_in", {3, 4}), param("w_rec", {4, 4})})),
            "w_in->h w_rec->h");
}

TEST(Layers, S20_IndependentCells) {
  const Model m = step_model({arg("x", {3}), hidden("cell_a/h", {4}), param("cell_a/w", {7, 4}),
                              hidden("cell_b/h", {4}), param("cell_b/w", {7, 4})},
                             [](In& in) {
                               for (const std::string c : {"cell_a", "cell_b"})
                                 in.set(c + "/h", tanh(matmul(cat(in["x"], in[c + "/h"]), in[c + "/w"])));
                               return in["cell_a/h"] + in["cell_b/h"];
                             });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(relations(g), "cell_a/w->cell_a/h cell_b/w->cell_b/h");
  EXPECT_EQ(groups(g), "[cell_a/h] [cell_b/h]");
}

TEST(Layers, S21_OneOutputIntoTwoGroups) {
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

TEST(Layers, S22_StackedLayersStayApartInBothScopes) {
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

TEST(Layers, S23_TiedWeightHasOneRelationPerCall) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(matmul(in["h"], in["w"]) + matmul(tanh(in["h"]), in["w"])));
        return in["h"];
      },
      {param("w", {4, 4})});
  ASSERT_EQ(g.hidden_param_op_relations.size(), 2U);
  EXPECT_FALSE(g.hidden_param_op_relations[0].y_var == g.hidden_param_op_relations[1].y_var);
}

struct Projection : Module {
  ParamState& weight = param("weight", full({4, 4}, 0.1, Dtype::F64));
  Array update(const Array& x) override { return matmul(x, weight.value()); }
};
struct CallsTwice : Module {
  Projection& proj = child<Projection>("proj");
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  Array update(const Array& x) override {
    h.set(tanh(proj(x) + proj(h.value())));
    return h.value();
  }
};

TEST(Layers, S24_SharedSubmoduleCalledTwice) {
  CallsTwice model;
  init_all_states(model);
  const ETraceGraph g = compile_etrace_graph(model, zeros({4}, Dtype::F64));
  EXPECT_EQ(relations(g), "proj/weight->h proj/weight->h");
}

TEST(Layers, S25_PathsCarryEveryLevel) {
  const Model m =
      step_model({arg("x", {3}), hidden("a/b/0/c/h", {4}), param("a/b/0/c/w", {7, 4})}, [](In& in) {
        in.set("a/b/0/c/h", tanh(matmul(cat(in["x"], in["a/b/0/c/h"]), in["a/b/0/c/w"])));
        return in["a/b/0/c/h"];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(relations(g), "a/b/0/c/w->a/b/0/c/h");
  EXPECT_EQ(g.hidden_param_op_relations[0].path(), path_of("a/b/0/c/w"));
}

TEST(Layers, S26_EachCellHasItsOwnOperator) {
  const Model m = step_model(
      {arg("x", {3}), arg("xs", {2, 3}), hidden("h", {4}), hidden("hs", {2, 4}), param("w", {7, 4})},
      [](In& in) {
        in.set("h", tanh(matmul(cat(in["x"], in["h"]), in["w"])));
        in.set("hs", tanh(matmul(cat(in["xs"], in["hs"]), in["w"])));
        return in["h"];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(relations(g), "w->h w->hs");
  EXPECT_EQ(g.hidden_param_op_relations[0].primitive, &etp_mv_p);
  EXPECT_EQ(g.hidden_param_op_relations[1].primitive, &etp_mm_p);
}

TEST(Layers, S27_StateOfAnotherShapeBehindAStateIsNotConnected) {
  const Model m =
      step_model({arg("x", {3}), hidden("g", {4}), hidden("v", {2}), param("w", {3, 4})}, [](In& in) {
        in.set("g", 0.8 * in["g"] + matmul(in["x"], in["w"]));
        in.set("v", 0.9 * in["v"] + slice(in["g"], {0}, {2}));
        return in["v"];
      });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(relations(g), "w->g");
  EXPECT_EQ(groups(g), "[g] [v]");
}

// D: exclusions ---------------------------------------------------------------------------------------------

TEST(Exclusions, S28_PlainProductIsNoMatterForTheCompiler) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", tanh(0.5 * in["h"] + dot(in["x"], in["w"])));
        return in["h"];
      },
      {param("w", {3, 4})});
  EXPECT_EQ(relations(g), "");
  EXPECT_TRUE(g.diagnostics.empty());
}

TEST(Exclusions, S29_PlainProductHasNoReason) {
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

TEST(Exclusions, S30_ReadoutIsNonTemporal) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", 0.9 * in["h"] + matmul(in["x"], in["w"]));
        return matmul(in["h"], in["o"]);
      },
      {param("w", {3, 4}), param("o", {4, 2})});
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_NON_TEMPORAL), 1U);
  EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT), 0U);
}

TEST(Exclusions, S31_TwoLayerReadoutIsNonTemporal) {
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

TEST(Exclusions, S32_OutputThatDoesNotFitTheState) {
  const Model m = step_model({arg("x", {2, 3}), hidden("h", {2, 3}), param("w", {3, 4})}, [](In& in) {
    in.set("h", 0.5 * in["h"] + slice(matmul(in["x"], in["w"]), {0, 0}, {2, 3}));
    return in["h"];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(relations(g), "");
  EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_SHAPE_MISMATCH), 1U);
  EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_NON_TEMPORAL), 1U);
}

TEST(Exclusions, S33_S34_S35_ConstantWeightOrBias) {
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

TEST(Exclusions, S36_WeightAndBiasOfParametersNeedNoRecord) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("h", 0.5 * in["h"] + matmul(in["x"], in["w"], in["b"]));
        return in["h"];
      },
      {param("b", {4}), param("w", {3, 4})});
  ASSERT_EQ(g.hidden_param_op_relations.size(), 1U);
  EXPECT_EQ(g.hidden_param_op_relations[0].trainables.size(), 2U);
  EXPECT_EQ(count(g, Kind::TRAINABLE_INVAR_NOT_PARAMSTATE), 0U);
}

TEST(Exclusions, S37_GroupStateComparesWithoutItsStateAxis) {
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

}  // namespace
}  // namespace etrace
