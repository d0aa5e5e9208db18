// Scenario I, second part: short loops become straight lines, repeated until nothing changes; and operators
// that stay inside an opaque body.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

const Inputs kWeights{param("w", {3, 4}), param("u", {4, 4})};

TEST(Unrolling, S90_EveryStepHasItsOperators) {
  const Model m = cell([](In& in) { return inner_loop(in, 3, true); }, kWeights);
  const ModuleInfo info = expect_same_meaning(m);
  EXPECT_EQ(count(info.jaxpr(), etp_mv_p), 6U);
  EXPECT_EQ(count(compile_etrace_graph(m), Kind::SCAN_UNROLLED), 1U);
}

TEST(Unrolling, LeakyBodyReachesTheStateFromEveryStep) {
  const ETraceGraph g = compile_cell([](In& in) { return inner_loop(in, 3, false); }, kWeights);
  EXPECT_EQ(g.hidden_param_op_relations.size(), 3U);
}

// Two carries (one passes through), two stacked results (one is the new carry itself).
Array rich_loop(In& in, const ScanOptions& options, bool with_xs) {
  const Arrays xs = with_xs ? Arrays{broadcast_to(in["x"], {options.length, 3})} : Arrays{};
  const ScanResult r = scan(
      [&](ArraySpan c, ArraySpan x) -> ScanResult {
        const Array next = 0.8 * c[0] + (with_xs ? matmul(x[0], in["w"]) : matmul(c[0], in["u"])) * c[1];
        return {{next, c[1]}, {next, c[0] + c[1]}};
      },
      {in["h"], in["h"] * 0.5}, xs, options);
  in.set("h", r.carry[0]);
  return sum(r.ys[0] * r.ys[1], {0}) + r.carry[1];
}

TEST(Unrolling, S91_CarriesResultsLengthsAndDirections) {
  for (const std::int64_t length : {1, 3})
    for (const bool reverse : {false, true})
      for (const bool with_xs : {false, true}) {
        const Model m = cell(
            [&](In& in) { return rich_loop(in, {.length = length, .reverse = reverse}, with_xs); }, kWeights);
        const ModuleInfo info = expect_same_meaning(m);
        EXPECT_EQ(count(info.jaxpr(), scan_p), 0U);
        EXPECT_EQ(count(info.jaxpr(), etp_mv_p), static_cast<std::size_t>(length));
      }
}

TEST(Unrolling, S91_DirectionMattersWhereXsDiffer) {
  const Model m = step_model({arg("x", {3, 3}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
    const ScanResult r = scan(
        [&](ArraySpan c, ArraySpan x) -> ScanResult {
          const Array next = tanh(0.5 * c[0] + matmul(x[0], in["w"]));
          return {{next}, {next}};
        },
        {in["h"]}, {in["x"]}, {.reverse = true});
    in.set("h", r.carry[0]);
    return r.ys[0];
  });
  EXPECT_EQ(count(expect_same_meaning(m).jaxpr(), scan_p), 0U);
}

TEST(Unrolling, S92_UnusedResultsAreNotStacked) {
  const Model m = cell(
      [](In& in) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan) -> ScanResult {
              const Array next = 0.8 * c[0] + matmul(c[0], in["u"]);
              return {{next}, {next}};
            },
            {in["h"]}, {}, {.length = 3});
        in.set("h", r.carry[0]);
        return in["h"];
      },
      kWeights);
  EXPECT_EQ(count(expect_same_meaning(m).jaxpr(), concatenate_p), 0U);
}

TEST(Unrolling, S93_LongerThanTheLimit) {
  const Model m = cell([](In& in) { return inner_loop(in, 40, false); }, kWeights);
  const auto skip = [&](const CompileOptions& options) {
    Reporter reporter;
    extract_module_info(m, reporter, options);
    EXPECT_EQ(count(reporter.records(), Kind::SCAN_UNROLL_SKIPPED), 1U);
    return reporter.records().at(0);
  };
  EXPECT_EQ(skip({}).level, DiagnosticLevel::Info);
  EXPECT_THAT(skip({}).message, ::testing::HasSubstr("descent"));
  CompileOptions off;
  off.control_flow.scan_descent = ControlFlowPolicy::Descent::Off;
  EXPECT_EQ(skip(off).level, DiagnosticLevel::Warning);
  CompileOptions disabled;
  disabled.control_flow.scan_unroll_limit = 0;
  Reporter reporter;
  EXPECT_TRUE(equal(extract_module_info(m, reporter, disabled).closed_jaxpr, m.program));
  EXPECT_TRUE(reporter.records().empty());
}

// A loop of three steps that halves h until it is small, in each step.
Array while_in_scan(const Array& h) {
  return scan(
             [](ArraySpan c, ArraySpan) -> ScanResult {
               return {while_loop([](ArraySpan a) { return sum(square(a[0])) > 1.0; },
                                  [](ArraySpan a) { return Arrays{0.5 * a[0]}; }, {c[0]}),
                       {}};
             },
             {h}, {}, {.length = 3})
      .carry[0];
}

TEST(Unrolling, S94_WhileInTheBodyStays) {
  const ETraceGraph g = compile_cell([](In& in) {
    in.set("h", while_in_scan(in["h"]));
    return in["h"];
  });
  EXPECT_EQ(count(g.module_info.jaxpr(), scan_p), 1U);
  EXPECT_EQ(count(g, Kind::SCAN_UNROLL_SKIPPED), 1U);
  EXPECT_EQ(g.diagnostics[0].level, DiagnosticLevel::Warning);
}

TEST(Unrolling, S95_WeightAmongTheXsStays) {
  for (const bool derived : {false, true}) {
    const Model m = step_model({arg("x", {4}), hidden("h", {4}), param("w", {3, 4, 4})}, [&](In& in) {
      in.set("h", scan(
                      [&](ArraySpan c, ArraySpan w) -> ScanResult {
                        return {{tanh(matmul(c[0], w[0]))}, {}};
                      },
                      {in["h"]}, {derived ? 2.0 * in["w"] : in["w"]})
                      .carry[0]);
      return in["h"];
    });
    Reporter reporter;
    EXPECT_EQ(count(extract_module_info(m, reporter).jaxpr(), scan_p), 1U);
    EXPECT_EQ(count(reporter.records(), Kind::RELATION_EXCLUDED_SLICED_WEIGHT), 1U);
  }
}

TEST(Unrolling, S95_ActivationsAmongTheXsAreNoWeights) {
  const Model m =
      step_model({arg("x", {3, 3}), hidden("h", {4}), param("w", {3, 4}), param("u", {4, 4})}, [](In& in) {
        in.set("h", scan(
                        [&](ArraySpan c, ArraySpan x) -> ScanResult {
                          return {{tanh(x[0] + matmul(c[0], in["u"]))}, {}};
                        },
                        {in["h"]}, {matmul(in["x"], in["w"])})
                        .carry[0]);
        return in["h"];
      });
  EXPECT_EQ(count(expect_same_meaning(m).jaxpr(), scan_p), 0U);
  EXPECT_EQ(count(compile_etrace_graph(m), Kind::RELATION_EXCLUDED_SLICED_WEIGHT), 0U);
}

Array nested_loops(In& in, std::int64_t outer, std::int64_t inner) {
  const auto step = [&](ArraySpan c, ArraySpan) -> ScanResult {
    return {{tanh(0.5 * c[0] + matmul(c[0], in["u"]))}, {}};
  };
  in.set("h", scan([&](ArraySpan c, ArraySpan) { return scan(step, {c[0]}, {}, {.length = inner}); },
                   {in["h"]}, {}, {.length = outer})
                  .carry[0]);
  return in["h"];
}

TEST(Unrolling, S96_NestedLoops) {
  const Model m = cell([](In& in) { return nested_loops(in, 2, 2); }, kWeights);
  const ModuleInfo info = expect_same_meaning(m);
  EXPECT_EQ(count(info.jaxpr(), scan_p), 0U);
  EXPECT_EQ(count(info.jaxpr(), etp_mv_p), 4U);
}

TEST(Unrolling, S97_LoopCellEqualsItsWrittenOutTwin) {
  const Inputs inputs{arg("x", {4}), hidden("h", {4}), param("w", {4, 4})};
  const auto step = [](const Array& x, const Array& h, const Array& w) {
    return tanh(matmul(x, w) + matmul(h, w));
  };
  const Model loop = step_model(inputs, [&](In& in) {
    in.set("h", scan(
                    [&](ArraySpan c, ArraySpan x) -> ScanResult {
                      return {{step(x[0], c[0], in["w"])}, {}};
                    },
                    {in["h"]}, {broadcast_to(in["x"], {3, 4})})
                    .carry[0]);
    return in["h"];
  });
  const Model twin = step_model(inputs, [&](In& in) {
    for (int i = 0; i < 3; ++i) in.set("h", step(in["x"], in["h"], in["w"]));
    return in["h"];
  });
  for (const Model* m : {&loop, &twin}) {
    const ETraceGraph g = compile_etrace_graph(*m);
    EXPECT_EQ(relations(g), "w->h w->h") << "only the last sub-step reaches the state directly";
    EXPECT_EQ(count(g, Kind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT), 4U);
  }
  const auto loss = [](const Model& m) {
    return ScalarFunction([&m](ArraySpan a) { return sum(square(eval_jaxpr(m.program, a)[0])); });
  };
  const Arrays x = inputs_of(loop);
  expect_same(grad(loss(loop), {1, 2})(x), grad(loss(twin), {1, 2})(x));
  expect_same_meaning(loop);
}

TEST(Unrolling, S98_OneRecordPerEquationLeft) {
  const auto choice = [](In& in, const Array& h, bool opaque) {
    const Function yes = [opaque](ArraySpan a) { return Arrays{opaque ? while_in_scan(a[0]) : 0.3 * a[0]}; };
    return cond(
        sum(in["x"]) > 0.0, yes, [](ArraySpan a) { return Arrays{0.5 * a[0]}; }, Arrays{h})[0];
  };
  // The texts of equal equations are equal; conversions in between start another sweep.
  for (const std::vector<bool>& opaque :
       {std::vector<bool>{true, true}, {true, false}, {false, true}, {true, false, true}}) {
    const ETraceGraph g = compile_cell(
        [&](In& in) {
          Array next = while_in_scan(in["h"]);
          for (const bool o : opaque) next = next + choice(in, in["h"], o);
          in.set("h", next + inner_loop(in, 2, false));
          return in["h"];
        },
        kWeights);
    const auto left = static_cast<std::size_t>(std::count(opaque.begin(), opaque.end(), true));
    EXPECT_EQ(count(g, Kind::COND_CONVERSION_SKIPPED), left);
    EXPECT_EQ(count(g, Kind::COND_IF_CONVERTED), opaque.size() - left);
    EXPECT_EQ(count(g, Kind::SCAN_UNROLL_SKIPPED), 1U);
    EXPECT_EQ(count(g, Kind::SCAN_UNROLLED), 1U);
  }
}

TEST(Unrolling, S99_S100_IterationLimitIsExact) {
  const Step one_cond = [](In& in) {
    const Arrays drive = cond(
        sum(in["x"]) > 0.0, [&](ArraySpan a) { return Arrays{matmul(a[0], a[1])}; },
        [&](ArraySpan a) { return Arrays{0.5 * matmul(a[0], a[1])}; }, Arrays{in["x"], in["w"]});
    in.set("h", 0.9 * in["h"] + drive[0]);
    return in["h"];
  };
  const Step cond_in_scan = [&](In& in) {
    in.set("h", scan(
                    [&](ArraySpan c, ArraySpan) -> ScanResult {
                      return {
                          cond(
                              sum(in["x"]) > 0.0, [&](ArraySpan a) { return Arrays{matmul(a[0], in["u"])}; },
                              [&](ArraySpan a) { return Arrays{0.5 * a[0]}; }, Arrays{c[0]}),
                          {}};
                    },
                    {in["h"]}, {}, {.length = 2})
                    .carry[0]);
    return in["h"];
  };
  struct Row {
    Step step;
    std::int64_t enough;
    const char* left;
  };
  for (const Row& row :
       {Row{one_cond, 2, "branches=2"}, Row{[](In& in) { return nested_loops(in, 2, 2); }, 3, "length="},
        Row{cond_in_scan, 3, "branches=2"}}) {
    CompileOptions options;
    options.control_flow.fixpoint_iteration_limit = row.enough;
    EXPECT_NO_THROW(compile_cell(row.step, kWeights, options)) << row.left;
    options.control_flow.fixpoint_iteration_limit = row.enough - 1;
    try {
      compile_cell(row.step, kWeights, options);
      ADD_FAILURE() << row.left;
    } catch (const CompilationError& e) {
      EXPECT_THAT(
          e.what(),
          ::testing::AllOf(::testing::HasSubstr("canonicalize_control_flow"),
                           ::testing::HasSubstr("fixpoint_iteration_limit=" + std::to_string(row.enough - 1)),
                           ::testing::HasSubstr(row.left), ::testing::HasSubstr("cond='opaque'"),
                           ::testing::HasSubstr("scan_unroll_limit=0")));
    }
  }
  CompileOptions options;
  options.control_flow.fixpoint_iteration_limit = 1;
  EXPECT_NO_THROW(compile_cell(
      [](In& in) {
        in.set("h", 0.5 * in["h"]);
        return in["h"];
      },
      {}, options))
      << "nothing to rewrite";
  for (const std::int64_t bad : {0, -1}) {
    options.control_flow.fixpoint_iteration_limit = bad;
    EXPECT_THROW(compile_cell(one_cond, kWeights, options), ValueError);
  }
}

TEST(OpaqueBodies, S101_OperatorsInside) {
  // The weights are constants, so that only the operators themselves are the matter.
  const Array constant = full({4, 4}, 0.1, Dtype::F64);
  const auto product = [&](const Array& h) { return Arrays{matmul(h, constant)}; };
  struct Row {
    Step step;
    std::size_t operators;
  };
  const std::vector<Row> rows{{[&](In& in) {
                                 return scan(
                                            [&](ArraySpan c, ArraySpan) -> ScanResult {
                                              return {product(c[0]), {}};
                                            },
                                            {tanh(in["h"])}, {}, {.length = 3})
                                     .carry[0];
                               },
                               1},
                              {[&](In& in) {
                                 return while_loop([](ArraySpan c) { return sum(c[0]) > 100.0; },
                                                   [&](ArraySpan c) { return product(c[0]); },
                                                   {tanh(in["h"])})[0];
                               },
                               1},
                              {[&](In& in) {
                                 const Function branch = [&](ArraySpan a) { return product(a[0]); };
                                 return cond(sum(in["x"]) > 0.0, branch, branch, Arrays{tanh(in["h"])})[0];
                               },
                               2}};
  for (const Row& row : rows) {
    const Model m = cell([&](In& in) {
      in.set("h", 0.5 * in["h"] + row.step(in));
      return in["h"];
    });
    CompileOptions options;
    options.control_flow.cond = ControlFlowPolicy::Cond::Opaque;
    options.control_flow.scan_unroll_limit = 0;
    try {
      compile_etrace_graph(m, options);
      ADD_FAILURE() << "an operator in an opaque body must be refused";
    } catch (const WithRecords<NotSupportedError>& e) {
      EXPECT_EQ(count(e.records, Kind::PRIMITIVE_INSIDE_CONTROL_FLOW), 1U);
      EXPECT_EQ(e.records.back().level, DiagnosticLevel::Error);
    }
    options.control_flow.etp_in_control_flow = ControlFlowPolicy::EtpInside::Exclude;
    const ETraceGraph g = compile_etrace_graph(m, options);
    EXPECT_TRUE(g.hidden_param_op_relations.empty());
    EXPECT_EQ(count(g, Kind::PRIMITIVE_INSIDE_CONTROL_FLOW), row.operators);
  }
}

TEST(OpaqueBodies, OperatorInsideACustomDerivativeIsReported) {
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

}  // namespace
}  // namespace etrace
