// Scenario J, first part: while loops, which stay one equation of transitions and tails.
#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;

const Inputs kLoopWeights{param("w", {3, 4}), param("u", {4, 4})};

Array leaky_relaxation(const Array& s, const Array& drive) { return s + 0.5 * tanh(drive - s); }

// Three rounds of `round` from h, as a loop and written out.
using Round = std::function<Array(In& in, const Array& s, const Array& drive)>;
Step looped_rounds(const Round& round) {
  return [round](In& in) {
    const Array drive = matmul(in["x"], in["w"]) + 0.8 * in["h"];
    in.set("h", while_loop([](ArraySpan c) { return c[1] < 3; },
                           [&](ArraySpan c) {
                             return Arrays{round(in, c[0], drive), c[1] + Array(1)};
                           },
                           {in["h"], full({}, std::int64_t{0}, Dtype::I32)})[0]);
    return in["h"];
  };
}
Step written_rounds(const Round& round) {
  return [round](In& in) {
    const Array drive = matmul(in["x"], in["w"]) + 0.8 * in["h"];
    Array s = in["h"];
    for (int i = 0; i < 3; ++i) s = round(in, s, drive);
    in.set("h", s);
    return in["h"];
  };
}
Array relax(In&, const Array& s, const Array& drive) { return leaky_relaxation(s, drive); }
Array relax_mixed(In&, const Array& s, const Array& drive) {
  static const Array r = array(
      {{0.1, -0.4, 0.2, 0.0}, {0.3, 0.1, 0.0, 0.5}, {0.0, 0.2, -0.1, 0.1}, {0.2, 0.0, 0.4, 0.3}}, Dtype::F64);
  return leaky_relaxation(s, drive + dot(s, r));
}

void expect_same_blocks(const Round& round, const CompileOptions& options) {
  const Model loop = cell(looped_rounds(round), kLoopWeights),
              twin = cell(written_rounds(round), kLoopWeights);
  const ETraceGraph a = compile_etrace_graph(loop, options), b = compile_etrace_graph(twin, options);
  expect_same(Arrays{diagonal_jacobian(a.hidden_groups[0], Values(a, loop))},
              Arrays{diagonal_jacobian(b.hidden_groups[0], Values(b, twin))});
}

TEST(WhileLoops, S102_AreOneEquationOfTheTransition) {
  const ETraceGraph g = compile_cell(looped_rounds(relax), kLoopWeights);
  ASSERT_EQ(g.hidden_groups.size(), 1U);
  EXPECT_EQ(count(g.hidden_groups[0].transition_jaxpr, while_p), 1U);
  EXPECT_EQ(relations(g), "w->h");
  EXPECT_EQ(count(g.hidden_param_op_relations[0].y_to_hidden_group_jaxprs[0], while_p), 1U);
  EXPECT_EQ(count(g, Kind::CONTROL_FLOW_OPAQUE_FWD), 2U) << "once for the groups, once for the perturbation";
  expect_same_blocks(relax, {});
}

TEST(WhileLoops, S103_BodyThatMixesPositions) {
  const ETraceGraph g = compile_cell(looped_rounds(relax_mixed), kLoopWeights);
  EXPECT_TRUE(g.hidden_groups[0].transition_jaxpr.eqns.empty()) << "the recurrence is cut at the loop";
  EXPECT_EQ(count(g, Kind::CONTROL_FLOW_RECURRENT_MIXING), 1U);
  const ETraceGraph coupled = compile_cell(looped_rounds(relax_mixed), kLoopWeights, mixing());
  EXPECT_FALSE(coupled.hidden_groups[0].is_diagonal_recurrence);
  EXPECT_EQ(count(coupled, Kind::CONTROL_FLOW_RECURRENT_MIXING), 0U);
  expect_same_blocks(relax_mixed, mixing());
}

TEST(WhileLoops, S104_ProjectionOfTheInputIsNoMixing) {
  const Array r = full({3, 4}, 0.1, Dtype::F64);
  const Round projects = [&](In& in, const Array& s, const Array& drive) {
    return leaky_relaxation(s, drive + dot(in["x"], r));
  };
  const ETraceGraph g = compile_cell(looped_rounds(projects), kLoopWeights);
  EXPECT_EQ(count(g.hidden_groups[0].transition_jaxpr, while_p), 1U);
  EXPECT_EQ(count(g, Kind::CONTROL_FLOW_RECURRENT_MIXING), 0U);
}

TEST(WhileLoops, S105_MixingBehindACallIsStillMixing) {
  const Array r = full({4, 4}, 0.1, Dtype::F64);
  const Function product = [&](ArraySpan a) { return Arrays{dot(a[0], r)}; };
  const Function derived = custom_jvp(product, [&](ArraySpan a) {
    return Arrays{dot(a[0], r), dot(a[1], r)};
  });
  const Function in_a_loop = [&](ArraySpan a) {
    return fori_loop(0, 2, [&](const Array&, ArraySpan c) { return product(c); }, {a[0]});
  };
  for (const Function& f : {jit(product), jit(jit(product)), derived, in_a_loop}) {
    const ETraceGraph g = compile_cell(looped_rounds([&](In&, const Array& s, const Array& drive) {
                                         return leaky_relaxation(s, drive + f(Arrays{s})[0]);
                                       }),
                                       kLoopWeights);
    EXPECT_EQ(count(g, Kind::CONTROL_FLOW_RECURRENT_MIXING), 1U);
    EXPECT_TRUE(g.hidden_groups[0].transition_jaxpr.eqns.empty());
  }
}

TEST(WhileLoops, S103_MixingFromTheSecondIterationOn) {
  // What is multiplied holds nothing of h until the first iteration has put it there.
  const Array r = full({4, 4}, 0.1, Dtype::F64);
  const ETraceGraph g = compile_cell([&](In& in) {
    in.set("h", while_loop([](ArraySpan c) { return c[2] < 3; },
                           [&](ArraySpan c) {
                             return Arrays{0.5 * c[0] + dot(c[1], r), tanh(c[0]), c[2] + Array(1)};
                           },
                           {in["h"], zeros({4}, Dtype::F64), full({}, std::int64_t{0}, Dtype::I32)})[0]);
    return in["h"];
  });
  EXPECT_EQ(count(g, Kind::CONTROL_FLOW_RECURRENT_MIXING), 1U);
}

TEST(WhileLoops, S106_MayBeRefused) {
  CompileOptions options;
  options.control_flow.while_hidden = ControlFlowPolicy::WhileHidden::Error;
  const Model m = cell(looped_rounds(relax), kLoopWeights);
  Reporter reporter;
  const ModuleInfo info = extract_module_info(m, reporter, options);
  EXPECT_THROW(find_hidden_groups_from_minfo(info, reporter, options), NotSupportedError);
  EXPECT_THROW(add_hidden_perturbation_from_minfo(info, reporter, options), NotSupportedError);
  EXPECT_THROW(compile_etrace_graph(m, options), NotSupportedError);
}

TEST(WhileLoops, S107_WeightsAndOperatorsInside) {
  const auto refused = [](const Round& round) {
    try {
      compile_cell(looped_rounds(round), kLoopWeights);
      ADD_FAILURE() << "must be refused";
      return CompilationRecord{};
    } catch (const WithRecords<NotSupportedError>& e) {
      return e.records.back();
    }
  };
  const CompilationRecord weight = refused([](In& in, const Array& s, const Array& drive) {
    return leaky_relaxation(s, drive + dot(s, in["u"]));
  });
  EXPECT_EQ(weight.kind, Kind::WEIGHT_IN_WHILE);
  EXPECT_THAT(weight.note, ::testing::HasSubstr("fixed-length"));
  const Array constant = full({4, 4}, 0.1, Dtype::F64);
  EXPECT_EQ(refused([&](In&, const Array& s, const Array& drive) {
              return leaky_relaxation(s, drive + matmul(s, constant));
            }).kind,
            Kind::PRIMITIVE_INSIDE_CONTROL_FLOW);
}

TEST(WhileLoops, S108_LayerBeforeAWhileLayerGetsItsSignal) {
  const Model m = step_model({arg("x", {4}), hidden("a", {4}), hidden("b", {4})}, [](In& in) {
    in.set("a", 0.5 * in["a"] + in["x"]);
    in.set("b", while_loop([](ArraySpan c) { return c[1] < 3; },
                           [&](ArraySpan c) {
                             return Arrays{leaky_relaxation(c[0], in["a"]), c[1] + Array(1)};
                           },
                           {in["b"], full({}, std::int64_t{0}, Dtype::I32)})[0]);
    return in["b"];
  });
  for (const bool reference : {false, true}) {
    const ETraceGraph g = compile_etrace_graph(m, reference ? compat() : CompileOptions{});
    const HiddenPerturbation& p = *g.hidden_perturb;
    Arrays at = inputs_of(m);
    for (const Array& a : p.init_perturb_data()) at.push_back(a);
    const Array signal =
        grad([&](ArraySpan a) { return sum(p.eval_jaxpr(a.first(3), a.subspan(3))[0]); }, {3})(at)[0];
    const double size = to_double(sum(square(signal)).tensor().at(0));
    if (reference)
      EXPECT_EQ(size, 0.0) << "the reference cuts it (D20)";
    else
      EXPECT_GT(size, 0.01);
  }
}

}  // namespace
}  // namespace etrace
