// Scenario K, second part, and the entry point itself: report, determinism, strictness, options, vmap.
#include "compiler/scenario.h"
#include "etrace/models.h"

namespace etrace {
namespace {

using namespace testing;

TEST(Report, S124_PlainInputWeight) {
  const CompilationReport r(compile_cell(
      [](In& in) {
        in.set("h", tanh(dot(in["x"], in["win"]) + matmul(in["h"], in["w"])));
        return in["h"];
      },
      {param("win", {3, 4}), param("w", {4, 4})}));
  EXPECT_EQ(r.hidden_groups.size(), 1U);
  ASSERT_EQ(r.excluded_weights.size(), 1U);
  EXPECT_EQ(to_string(r.excluded_weights[0].path), "win");
  EXPECT_FALSE(r.excluded_weights[0].reason.has_value());
}

TEST(Report, S124_VanillaCellAndReadout) {
  const CompilationReport r(compile_etrace_graph(reference_model("cell_ValinaRNNCell_tanh")));
  EXPECT_EQ(r.hidden_groups.size(), 1U);
  EXPECT_EQ(r.etrace_weights.size(), 2U) << "one relation, weight and bias";
  ASSERT_EQ(r.excluded_weights.size(), 1U);
  EXPECT_EQ(r.excluded_weights[0].reason, Kind::RELATION_EXCLUDED_NON_TEMPORAL);
  EXPECT_EQ(r.warnings, 0U) << "a readout is no reason for one";
  EXPECT_EQ(r.errors, 0U);
  const CompilationReport gru(compile_etrace_graph(reference_model("cell_GRUCell")));
  EXPECT_EQ(gru.warnings, 1U);
  EXPECT_GT(gru.to_string(2).size(), gru.to_string(1).size());
}

TEST(Compile, S125_TwiceTheSame) {
  const std::vector<testing::StepInput> weights{param("wa", {3, 4}), param("wb", {3, 4})};
  const ETraceGraph a = compile_cell(two_way, weights), b = compile_cell(two_way, weights);
  EXPECT_EQ(relations(a), relations(b));
  EXPECT_EQ(to_string(a.module_info.jaxpr()), to_string(b.module_info.jaxpr()));
  ASSERT_EQ(a.diagnostics.size(), b.diagnostics.size());
  for (std::size_t i = 0; i < a.diagnostics.size(); ++i)
    EXPECT_EQ(to_string(a.diagnostics[i]), to_string(b.diagnostics[i]));
}

TEST(Compile, S126_MappedOverSamplesIsTheBatchedOperator) {
  const Inputs inputs{arg("x", {2, 3}), hidden("h", {2, 4}), param("w", {7, 4})};
  const auto model = [&](const std::function<Array(const Array& xh, const Array& w)>& product) {
    return step_model(inputs, [&](In& in) {
      in.set("h", tanh(0.5 * in["h"] + product(cat(in["x"], in["h"]), in["w"])));
      return in["h"];
    });
  };
  const Model native = model([](const Array& xh, const Array& w) { return matmul(xh, w); });
  const Model mapped = model([](const Array& xh, const Array& w) {
    return vmap([](ArraySpan a) { return Arrays{matmul(a[0], a[1])}; }, {0, -1})(Arrays{xh, w})[0];
  });
  const auto loss = [](const Model& m) {
    return ScalarFunction([&m](ArraySpan a) { return sum(square(eval_jaxpr(m.program, a)[0])); });
  };
  for (const Model* m : {&native, &mapped}) {
    const ETraceGraph g = compile_etrace_graph(*m);
    EXPECT_EQ(relations(g), "w->h");
    EXPECT_EQ(g.hidden_param_op_relations[0].primitive, &etp_mm_p);
    EXPECT_TRUE(g.hidden_param_op_relations[0].tail_reasons[0].empty());
  }
  const Arrays x = inputs_of(native);
  expect_same(grad(loss(mapped), {1, 2})(x), grad(loss(native), {1, 2})(x));
}

TEST(Compile, OptionsAreKept) {
  CompileOptions options = snap(2);
  options.control_flow.scan_unroll_limit = 3;
  const ETraceGraph g = compile_cell(two_way, kTwoWeights, options);
  EXPECT_EQ(g.options.sparse_n, 2);
  EXPECT_TRUE(g.options.include_recurrent_mixing);
  EXPECT_EQ(g.options.control_flow.scan_unroll_limit, 3);
}

TEST(Compile, StrictModeTurnsWarningsIntoErrors) {
  const auto step = [](const Array& drive, In& in) {
    in.set("h", 0.9 * in["h"] + drive);
    return matmul(in["h"], in["o"]);
  };
  const Inputs weights{param("w", {3, 4}), param("u", {4, 4}), param("o", {4, 2})};
  const Step chained = [&](In& in) { return step(matmul(matmul(in["x"], in["w"]), in["u"]), in); };
  CompileOptions strict;
  strict.strict = true;
  EXPECT_NO_THROW(compile_cell(chained, weights));
  EXPECT_THROW(compile_cell(chained, weights, strict), CompilationError);
  EXPECT_NO_THROW(compile_cell([&](In& in) { return step(matmul(in["x"], in["w"]), in); }, weights, strict))
      << "a readout without a trace is what it should be";
}

TEST(Compile, StrictModeNamesThePlaceOnce) {
  const ReadyModel gru = make_model("gru", {});
  CompileOptions strict;
  strict.strict = true;
  try {
    compile_etrace_graph(*gru.module, gru.example, strict);
    FAIL() << "the reset gate has no trace, which is a warning";
  } catch (const CompilationError& e) {
    const std::string text = e.what();
    EXPECT_THAT(text, ::testing::HasSubstr("(at rnn.Wr)"));
    EXPECT_EQ(text.find("(at "), text.rfind("(at ")) << text;
  }
}

// The batch -------------------------------------------------------------------------------------------------
// A step on x [2,3] and h [2,4] with one weight, through an operator with or without a batch.
ETraceGraph compile_pair(const Step& step, const CompileOptions& options = {}) {
  return compile_etrace_graph(
      step_model({arg("x", {2, 3}), hidden("h", {2, 4}), param("w", {3, 4}), param("a", {4})}, step),
      options);
}

TEST(Batch, IsKnownFromABatchedOperator) {
  const ETraceGraph g = compile_pair([](In& in) {
    in.set("h", 0.5 * in["h"] * element_wise(in["a"]) + matmul(in["x"], in["w"]));
    return in["h"];
  });
  EXPECT_EQ(g.module_info.batch_size, 2);
  ASSERT_EQ(g.hidden_groups.size(), 1U);
  EXPECT_EQ(g.hidden_groups[0].batch_size, 2);
  EXPECT_EQ(g.hidden_groups[0].sample_shape(), Shape({4}));
}

TEST(Batch, WithoutOneItIsTheAxisThatAResultIsSpreadOver) {
  const ETraceGraph g = compile_pair([](In& in) {
    in.set("h", 0.5 * in["h"] + element_wise(in["a"]) + sum(in["x"]) * sum(in["w"]));
    return in["h"];
  });
  EXPECT_EQ(g.module_info.batch_size, std::nullopt);
  EXPECT_EQ(g.hidden_groups[0].batch_size, 2);
}

TEST(Batch, OneSampleHasNone) {
  const ETraceGraph g = compile_cell(two_way, kTwoWeights);
  EXPECT_EQ(g.module_info.batch_size, std::nullopt);
  EXPECT_EQ(g.hidden_groups[0].batch_size, std::nullopt);
  EXPECT_EQ(g.hidden_groups[0].batch(), 1);
  EXPECT_EQ(g.hidden_groups[0].sample_shape(), Shape({4}));
}

TEST(Batch, TheOptionsDecide) {
  // A square state of one sample: by its shape alone it might as well be a batch of four.
  const auto square_state = [](const CompileOptions& options) {
    return compile_etrace_graph(step_model({arg("x", {4}), hidden("h", {4, 4}), param("w", {4, 4})},
                                           [](In& in) {
                                             in.set("h", 0.5 * in["h"] + element_wise(in["w"]));
                                             return in["h"];
                                           }),
                                options);
  };
  EXPECT_EQ(square_state({}).hidden_groups[0].batch_size, std::nullopt);
  CompileOptions four;
  four.batch_size = 4;
  EXPECT_EQ(square_state(four).module_info.batch_size, 4);
  EXPECT_EQ(square_state(four).hidden_groups[0].batch_size, 4);
  CompileOptions three;
  three.batch_size = 3;
  try {
    square_state(three);
    FAIL() << "a batch that no state has was accepted";
  } catch (const ValueError& e) {
    EXPECT_THAT(std::string(e.what()), ::testing::HasSubstr("hidden state h has type f64[4,4]"));
  }
}

// Refusals --------------------------------------------------------------------------------------------------
std::string refusal_of(const std::string& file) {
  const Model m = read_model_file(std::string(ETRACE_TEST_DIR) + "/compiler/refused/" + file + ".json");
  try {
    compile_etrace_graph(m);
  } catch (const CompilationError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Refused, IntegerState) {
  EXPECT_THAT(refusal_of("min_int_hidden"),
              ::testing::AllOf(::testing::HasSubstr("hidden state c has type i32[4]"),
                               ::testing::HasSubstr("ShortTermState")));
}

TEST(Refused, TypesThatDifferWithinAGroup) {
  EXPECT_THAT(refusal_of("min_f32_f64_hidden"),
              ::testing::AllOf(::testing::HasSubstr("c (f32[4]) and h (f64[4])"),
                               ::testing::HasSubstr("convert one of them")));
}

TEST(Refused, OneSampleForABatch) {
  EXPECT_THAT(refusal_of("p2_batch1_bcast_b3"),
              ::testing::AllOf(::testing::HasSubstr("w: the result f64[1,4] of etp_mm is one sample"),
                               ::testing::HasSubstr("the 3 samples of hidden state h of type f64[3,4]"),
                               ::testing::HasSubstr("a row per sample")));
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

}  // namespace
}  // namespace etrace
