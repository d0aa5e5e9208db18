// Scenarios H and I, first part: calls are inlined and conditionals become selections, without change of
// meaning.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

Array leaky(In& in, const Array& drive) {
  in.set("h", 0.9 * in["h"] + tanh(drive));
  return in["h"];
}
Array positive(In& in) { return sum(in["x"]) > 0.0; }

TEST(Calls, S81_WrappedCellIsTheBareCell) {
  const Model m = cell(
      [](In& in) {
        in.set("h", jit([](ArraySpan a) { return Arrays{tanh(matmul(cat(a[0], a[1]), a[2]))}; })(
                        Arrays{in["x"], in["h"], in["w"]})[0]);
        return in["h"];
      },
      {param("w", {7, 4})});
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(relations(g), "w->h");
  EXPECT_EQ(g.hidden_param_op_relations[0].primitive, &etp_mv_p);
  const Jaxpr& tail = g.hidden_param_op_relations[0].y_to_hidden_group_jaxprs[0];
  const Values values(g, m);
  expect_same(eval_jaxpr(tail, values[tail.constvars], Arrays{values[g.hidden_param_op_relations[0].y_var]}),
              values[g.hidden_groups[0].hidden_outvars]);
  expect_same_meaning(m);
}

TEST(Conditionals, S82_BecomeSelections) {
  const Model m = cell(two_way, kTwoWeights);
  const ModuleInfo info = expect_same_meaning(m);
  EXPECT_EQ(count(info.jaxpr(), cond_p), 0U);
  EXPECT_EQ(count(info.jaxpr(), select_n_p), 1U);
  EXPECT_EQ(count(info.jaxpr(), etp_mv_p), 2U);
  EXPECT_EQ(info.jaxpr().invars, m.program.jaxpr.invars);
  EXPECT_EQ(info.jaxpr().outs, m.program.jaxpr.outs);
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(g.hidden_param_op_relations.size(), 2U);
  EXPECT_EQ(count(g, Kind::COND_IF_CONVERTED), 1U);
}

TEST(Conditionals, S83_SwitchWithTwoResultsAndAPassThrough) {
  const Model m = cell(
      [](In& in) {
        const std::vector<Function> branches{[](ArraySpan a) {
                                               return Arrays{matmul(a[0], a[2]), a[1]};
                                             },
                                             [](ArraySpan a) {
                                               return Arrays{a[1], matmul(a[0], a[3])};
                                             },
                                             [](ArraySpan a) {
                                               return Arrays{tanh(a[1]), zeros({4}, Dtype::F64)};
                                             }};
        const Arrays out = switch_case(convert(sum(in["x"]), Dtype::I32), branches,
                                       Arrays{in["x"], in["h"], in["wa"], in["wb"]});
        return leaky(in, out[0] + 0.3 * out[1]);
      },
      kTwoWeights);
  Arrays first;  // the index is the sum, clamped
  for (const double x : {-2.0, 0.2, 0.5, 0.8, 3.0}) first.push_back(full({3}, x, Dtype::F64));
  const ModuleInfo info = expect_same_meaning(m, {}, first);
  EXPECT_EQ(count(info.jaxpr(), cond_p), 0U);
  EXPECT_EQ(count(info.jaxpr(), select_n_p), 2U) << "one selection per result";
  EXPECT_EQ(compile_etrace_graph(m).hidden_param_op_relations.size(), 2U);
}

TEST(Conditionals, S84_IrrelevantOneStays) {
  const Model m = cell([](In& in) {
    in.set("h", 0.5 * in["h"]);
    return cond(
        positive(in), [](ArraySpan a) { return Arrays{2.0 * a[0]}; },
        [](ArraySpan a) { return Arrays{tanh(a[0])}; }, Arrays{in["x"]})[0];
  });
  Reporter reporter;
  EXPECT_TRUE(equal(extract_module_info(m, reporter).closed_jaxpr, m.program));
  EXPECT_TRUE(reporter.records().empty());
}

TEST(Conditionals, S85_WhatMakesOneRelevant) {
  const auto reason = [](const Step& step) {
    const ETraceGraph g = compile_cell(step, kTwoWeights);
    EXPECT_EQ(count(g.module_info.jaxpr(), cond_p), 0U);
    for (const CompilationRecord& r : g.diagnostics)
      if (r.kind == Kind::COND_IF_CONVERTED) return r.message;
    return std::string("not converted");
  };
  const Function twice = [](ArraySpan a) { return Arrays{2.0 * a[0]}; },
                 bounded = [](ArraySpan a) { return Arrays{tanh(a[0])}; };
  EXPECT_THAT(reason([&](In& in) {
                return leaky(in, dot(in["x"], cond(positive(in), twice, bounded, Arrays{in["wa"]})[0]));
              }),
              ::testing::HasSubstr("a weight enters it"));
  EXPECT_THAT(
      reason([&](In& in) { return leaky(in, cond(positive(in), twice, bounded, Arrays{in["h"]})[0]); }),
      ::testing::HasSubstr("a hidden state enters it"));
  EXPECT_THAT(reason([&](In& in) {
                in.set("h", cond(positive(in), twice, bounded, Arrays{0.5 * in["h"]})[0]);
                return in["h"];
              }),
              ::testing::HasSubstr("it produces a hidden state"));
  const Array constant = full({3, 4}, 0.1, Dtype::F64);
  EXPECT_THAT(reason([&](In& in) {
                return leaky(
                    in,
                    cond(
                        positive(in), [&](ArraySpan a) { return Arrays{matmul(a[0], constant)}; },
                        [&](ArraySpan) { return Arrays{zeros({4}, Dtype::F64)}; }, Arrays{2.0 * in["x"]})[0]);
              }),
              ::testing::HasSubstr("it contains a trainable operator"));
}

TEST(Conditionals, S86_NestedAndBehindCalls) {
  const auto choose = [](const Array& p, const Function& yes, const Function& no) {
    return [=](ArraySpan a) { return cond(p, yes, no, Arrays(a.begin(), a.end())); };
  };
  const Function first = [](ArraySpan a) { return Arrays{matmul(a[0], a[1])}; },
                 second = [](ArraySpan a) { return Arrays{matmul(a[0], a[2])}; };
  const Function shared = jit([](ArraySpan a) { return Arrays{tanh(matmul(a[0], a[1])) + 0.1}; });
  const std::vector<std::function<Function(const Array& big)>> branches{
      [&](const Array& big) { return choose(big, first, second); },       // a conditional in a branch
      [&](const Array&) { return jit(second); },                          // a call
      [&](const Array& big) { return jit(choose(big, first, second)); },  // a conditional in a call
      [&](const Array&) { return shared; }};                              // a function that both call
  for (std::size_t k = 0; k < branches.size(); ++k) {
    const Model m = cell(
        [&](In& in) {
          const Array big = sum(square(in["x"])) > 1.0;
          return leaky(in, choose(positive(in), branches[k](big),
                                  k == 3 ? shared : first)(Arrays{in["x"], in["wa"], in["wb"]})[0]);
        },
        kTwoWeights);
    Arrays inputs;
    for (const double x : {-0.9, -0.1, 0.1, 0.9}) inputs.push_back(full({3}, x, Dtype::F64));
    const ModuleInfo info = expect_same_meaning(m, {}, inputs);
    EXPECT_EQ(count(info.jaxpr(), cond_p) + count(info.jaxpr(), jit_p), 0U) << k;
    EXPECT_NO_THROW(compile_etrace_graph(m)) << k;
  }
}

// A branch that relaxes h in a loop of unknown length, and one that does so in a fixed number of steps.
Arrays relax_while(ArraySpan a) {
  return while_loop([](ArraySpan c) { return sum(square(c[0])) > 1.0; },
                    [](ArraySpan c) { return Arrays{0.5 * c[0]}; }, {a[0]});
}
Function relax_steps(std::int64_t n) {
  return [n](ArraySpan a) {
    return scan(
               [](ArraySpan c, ArraySpan) -> ScanResult {
                 return {{0.9 * c[0]}, {}};
               },
               {a[0]}, {}, {.length = n})
        .carry;
  };
}
Array choose_relaxation(In& in, const Function& yes) {
  return cond(
      positive(in), yes, [](ArraySpan a) { return Arrays{0.5 * a[0]}; }, Arrays{in["h"]})[0];
}

TEST(Conditionals, S87_BranchesThatCannotBeFlattenedStay) {
  const Model m = cell([](In& in) {
    const Array first = choose_relaxation(in, relax_while), second = choose_relaxation(in, relax_steps(40));
    in.set("h", 0.5 * first + 0.4 * second);
    return in["h"];
  });
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(count(g.module_info.jaxpr(), cond_p), 2U);
  EXPECT_EQ(count(g, Kind::COND_CONVERSION_SKIPPED), 2U);
  std::vector<std::string> reasons;
  for (const CompilationRecord& r : g.diagnostics)
    if (r.kind == Kind::COND_CONVERSION_SKIPPED) reasons.push_back(r.message);
  EXPECT_THAT(reasons,
              ::testing::ElementsAre(::testing::HasSubstr("while"), ::testing::HasSubstr("length 40")));
}

TEST(Conditionals, S88_ShortLoopInABranch) {
  const Model m = cell([](In& in) {
    in.set("h", choose_relaxation(in, relax_steps(3)));
    return in["h"];
  });
  const ModuleInfo info = expect_same_meaning(m);
  EXPECT_EQ(count(info.jaxpr(), cond_p) + count(info.jaxpr(), scan_p), 0U);
  const ETraceGraph g = compile_etrace_graph(m);
  EXPECT_EQ(count(g, Kind::COND_IF_CONVERTED), 1U);
  EXPECT_EQ(count(g, Kind::SCAN_UNROLLED), 1U);
}

TEST(Conditionals, S89_EqualAWrittenSelection) {
  const Model branching = cell(two_way, kTwoWeights);
  const Model selecting = cell(
      [](In& in) {
        const Array no = matmul(in["x"], in["wb"]), yes = matmul(in["x"], in["wa"]);
        return leaky(in, where(positive(in), yes, no));
      },
      kTwoWeights);
  EXPECT_EQ(relations(compile_etrace_graph(branching)), relations(compile_etrace_graph(selecting)));
  const auto loss = [](const Model& m) {
    return ScalarFunction([&m](ArraySpan a) { return sum(square(eval_jaxpr(m.program, a)[0])); });
  };
  const Arrays x = inputs_of(branching);
  expect_same(grad(loss(branching), {1, 2, 3})(x), grad(loss(selecting), {1, 2, 3})(x));
}

TEST(Conditionals, S89_OpaqueOnesRefuseWeights) {
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

}  // namespace
}  // namespace etrace
