// What a scope leaves out of the recurrence is said: in the groups, in records, and to the reader.
#include <fmt/format.h>

#include "compiler/scenario.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// "h->h etp_mv of w; …", group by group.
std::string dropped(const ETraceGraph& g) {
  std::string text;
  for (const HiddenGroup& group : g.hidden_groups)
    for (const DroppedWay& way : group.dropped) {
      text += text.empty() ? "" : "; ";
      for (const StatePath& p : way.from) text += to_string(p) + " ";
      text += "->";
      for (const StatePath& p : way.to) text += " " + to_string(p);
      text += " " + std::string(way.primitive->name()) +
              (way.weight_path ? " of " + to_string(*way.weight_path) : "");
    }
  return text;
}

std::string unwrapped(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

TEST(DroppedWays, TheRecurrentProductsOfAGru) {
  const ETraceGraph g = compile_etrace_graph(reference_model("cell_GRUCell"));
  EXPECT_EQ(dropped(g),
            "cell/h -> cell/h etp_mv of cell/Wz/weight; cell/h -> cell/h etp_mv of cell/Wr/weight; "
            "cell/h -> cell/h etp_mv of cell/Wh/weight");
  EXPECT_EQ(count(g, Kind::RECURRENCE_DROPPED), 3U);
  const std::string text = g.explain();
  EXPECT_THAT(unwrapped(text), HasSubstr("In scope diagonal the recurrent products are left out"));
  EXPECT_THAT(text, HasSubstr("cell/h at t-1 -> cell/h at t, through etp_mv of cell/Wz/weight"));
  EXPECT_THAT(text, Not(HasSubstr("each position depends on itself alone")));
  EXPECT_EQ(dropped(compile_etrace_graph(reference_model("cell_GRUCell"), mixing())), "");
}

// What a spike's slope is computed from acts on derivatives alone, whether a stop_gradient says so or not, at
// the top and inside loops.
TEST(DroppedWays, ASlopeIsNoWay) {
  const auto step = [](In& in, const Array& h, const Array& x, bool marked) {
    const Array slope = relu(matmul(h, in["u"]));
    return 0.5 * h + heaviside_surrogate(h + matmul(x, in["w"]), marked ? stop_gradient(slope) : slope);
  };
  for (const std::int64_t length : {1, 2, 40})  // no loop, unrolled, traced inside
    for (const bool marked : {false, true}) {
      SCOPED_TRACE(fmt::format("{} steps, {}", length, marked ? "marked" : "bare"));
      const auto loop = [&](In& in) {
        return scan(
                   [&](ArraySpan c, ArraySpan x) {
                     return ScanResult{{step(in, c[0], x[0], marked)}, {}};
                   },
                   {in["h"]}, {broadcast_to(in["x"], {length, 3})})
            .carry[0];
      };
      const ETraceGraph g = compile_cell(
          [&](In& in) {
            in.set("h", length == 1 ? step(in, in["h"], in["x"], marked) : loop(in));
            return in["h"];
          },
          {param("w", {3, 4}), param("u", {4, 4})});
      EXPECT_EQ(dropped(g), "");
      EXPECT_THAT(relations(g), HasSubstr("w->h"));
    }
}

// Five positions, states that are trained by 2 × (8 × 5 + 5) slots; the whole product is five times as much.
TEST(DroppedWays, ScopesThatKeepThemHaveAPrice) {
  const std::string text = compile_etrace_graph(reference_model("cell_GRUCell")).explain();
  EXPECT_THAT(text, HasSubstr("diagonal            90"));
  EXPECT_THAT(text, HasSubstr("coupled             90"));
  EXPECT_THAT(text, HasSubstr("snap2              450"));
}

TEST(DroppedWays, TheReferenceHasNoSuchRecords) {
  const ETraceGraph g = compile_etrace_graph(reference_model("cell_GRUCell"), compat());
  EXPECT_EQ(count(g, Kind::RECURRENCE_DROPPED), 0U);
  EXPECT_EQ(g.hidden_groups[0].dropped.size(), 3U);
}

TEST(DroppedWays, PlainProducts) {
  EXPECT_EQ(dropped(compile_etrace_graph(reference_model("min_plain_rec"))), "c -> c dot_general of g");
  EXPECT_EQ(dropped(compile_etrace_graph(reference_model("min_plain_gate"))), "c -> e dot_general of g");
  EXPECT_EQ(dropped(compile_etrace_graph(reference_model("min_plain_sum"))), "c -> e dot_general of g");
  EXPECT_EQ(dropped(compile_etrace_graph(reference_model("p2_plain_rec"))), "h -> h dot_general of wr");
  EXPECT_THAT(dropped(compile_etrace_graph(reference_model("p2_plain_conv"))),
              HasSubstr("h -> h conv_general_dilated"));
  const ETraceGraph g = compile_etrace_graph(reference_model("min_plain_rec"));
  const CompilationRecord r = g.explain_records({{}, {}, Kind::RECURRENCE_DROPPED}).at(0);
  EXPECT_EQ(r.primitive, "dot_general");
  EXPECT_EQ(to_string(r.weight_path.value()), "g");
  EXPECT_EQ(r.hidden_paths.size(), 1U);
  EXPECT_THAT(to_string(r), AllOf(HasSubstr("c at t-1 acts on c at t through plain dot_general of g"),
                                  HasSubstr("coupled scope keeps each position's own share")));
}

// A constant
// --------------------------------------------------------------------------------------------------
ETraceGraph with_constant(const Tensor& c, bool left = false) {
  return compile_cell(
      [&](In& in) {
        const Array back = left ? dot(Array(c), in["h"]) : dot(in["h"], Array(c));
        in.set("h", tanh(back + matmul(in["x"], in["w"])));
        return in["h"];
      },
      {param("w", {3, 4})});
}
Tensor scaled_unit(double beside) {
  std::vector<double> values(16, 0.0);
  for (std::size_t i = 0; i < 4; ++i) values[5 * i] = 0.5 + 0.1 * static_cast<double>(i);
  values[1] = beside;
  return Tensor::of(values, {4, 4});
}

TEST(DroppedWays, AConstantDiagonalProductIsKept) {
  for (const bool left : {false, true}) {
    const ETraceGraph g = with_constant(scaled_unit(0.0), left);
    EXPECT_EQ(dropped(g), "");
    EXPECT_EQ(count(g, Kind::DIAGONAL_PRODUCT_KEPT), 1U);
    EXPECT_TRUE(g.hidden_groups[0].is_diagonal_recurrence);
    EXPECT_GT(g.hidden_groups[0].transition_jaxpr.eqns.size(), 0U);
    EXPECT_EQ(count(g.module_info.jaxpr(), dot_general_p), 0U);
    check(g.module_info.closed_jaxpr);
  }
  const ETraceGraph computed = compile_etrace_graph(reference_model("p2_const_diag"));
  EXPECT_EQ(dropped(computed), "");
  EXPECT_EQ(count(computed, Kind::DIAGONAL_PRODUCT_KEPT), 1U);
}

TEST(DroppedWays, AnythingElseBesideTheDiagonalIsAProduct) {
  for (const double beside : {1e-300, std::numeric_limits<double>::quiet_NaN()}) {
    const ETraceGraph g = with_constant(scaled_unit(beside));
    EXPECT_EQ(dropped(g), "h -> h dot_general");
    EXPECT_EQ(count(g, Kind::DIAGONAL_PRODUCT_KEPT), 0U);
  }
}

TEST(DroppedWays, TheRewrittenProgramComputesTheSame) {
  const Model m = reference_model("p2_const_diag");
  const ETraceGraph g = compile_etrace_graph(m);
  const Arrays x = inputs_of(m);
  const Arrays before = eval_jaxpr(m.program, x), after = eval_jaxpr(g.module_info.closed_jaxpr, x);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(before[i].tensor().to_doubles(), after[i].tensor().to_doubles()) << i;
}

// Several states
// ----------------------------------------------------------------------------------------------
TEST(DroppedWays, PopulationsThatActOnEachOther) {
  const ETraceGraph g = compile_etrace_graph(
      step_model({arg("x", {4}), hidden("a", {4}), hidden("b", {4}), param("v", {4, 4}), param("w", {4, 4})},
                 [](In& in) {
                   const Array a = in["a"], b = in["b"];
                   in.set("a", tanh(in["x"] + matmul(b, in["v"])));
                   in.set("b", tanh(matmul(a, in["w"])));
                   return in["b"];
                 }));
  EXPECT_EQ(groups(g), "[a] [b]");
  EXPECT_EQ(dropped(g), "b -> a etp_mv of v; a -> b etp_mv of w");
}

TEST(DroppedWays, ALayerAboveIsNoWayBack) {
  const ETraceGraph g = compile_etrace_graph(reference_model("net_TwoLayerRNN"));
  ASSERT_EQ(g.hidden_groups.size(), 2U);
  for (const HiddenGroup& group : g.hidden_groups) {
    ASSERT_EQ(group.dropped.size(), 1U);
    EXPECT_EQ(group.dropped[0].from, group.hidden_paths);
    EXPECT_EQ(group.dropped[0].to, group.hidden_paths);
  }
}

TEST(DroppedWays, WhatNoDerivativePassesIsNotMissing) {
  EXPECT_EQ(dropped(compile_cell(
                [](In& in) {
                  const Array gate = dot(stop_gradient(in["h"]), in["u"]);
                  in.set("h", 0.5 * in["h"] + tanh(gate) + matmul(in["x"], in["w"]));
                  return in["h"];
                },
                {param("w", {3, 4}), param("u", {4, 4})})),
            "");
}

// A state of another shape: no product on the way, and no scope that keeps it.
TEST(DroppedWays, StatesOfDifferentShapes) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        const Array s = in["s"];
        in.set("s", 0.9 * s + sum(in["x"]));
        in.set("h", in["h"] * s + matmul(in["x"], in["w"]));
        return in["h"];
      },
      {hidden("s", {}), param("w", {3, 4})});
  EXPECT_EQ(dropped(g), "s -> h mul");
  EXPECT_FALSE(g.hidden_groups[0].dropped[0].kept_when_coupled);
}

TEST(DroppedWays, InsideALoopTheGroupHasItsFinalNumber) {
  const ETraceGraph g = compile_cell(
      [](In& in) {
        in.set("c", 0.5 * in["c"] + matmul(in["x"], in["v"]));
        return inner_loop(in, 40, true) + in["c"];
      },
      {hidden("c", {4}), param("w", {3, 4}), param("u", {4, 4}), param("v", {3, 4})});
  ASSERT_EQ(g.hidden_groups.size(), 2U);
  ASSERT_TRUE(g.hidden_groups[1].descent.has_value());
  EXPECT_EQ(dropped(g), "h -> h etp_mv of u");
  EXPECT_THAT(to_string(g.explain_records({{}, {}, Kind::RECURRENCE_DROPPED}).at(0)), HasSubstr("group 1"));
}

// What is traced must be heard: a result of the same step, or the way on to later ones, depends on the
// states.
TEST(TracesWithoutSignal, AreNotCalledLearnedOnline) {
  const std::vector<testing::StepInput> inputs{arg("x", {3}),          hidden("h", {4}),
                                               hidden("late", {2, 4}), hidden("same", {4}),
                                               param("w", {3, 4}),     param("u", {4, 4})};
  // The result reads h by way of a delay: of another shape, of the same shape, and beside h itself.
  const auto model = [&](bool other_shape, bool beside) {
    return step_model(inputs, [=](In& in) {
      in.set("h", 0.5 * in["h"] + matmul(in["x"], in["w"]));
      const Array old = other_shape ? squeeze(slice_axis(in["late"], 0, 0, 1), {0}) : in["same"];
      if (other_shape)
        in.set("late", concatenate(Arrays{slice_axis(in["late"], 0, 1, 2), expand_dims(in["h"], {0})}, 0));
      else
        in.set("same", in["h"]);
      const Array read = matmul(old, in["u"]);
      return beside ? read + in["h"] : read;
    });
  };
  for (const bool other_shape : {false, true})
    for (const bool beside : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", other_shape, beside));
      const Model m = model(other_shape, beside);
      const ETraceGraph g = compile_etrace_graph(m);
      const CompilationReport report(g);
      const bool silent = other_shape && !beside;
      EXPECT_EQ(count(g, Kind::TRACE_WITHOUT_SIGNAL), silent ? 1U : 0U);
      EXPECT_EQ(report.etrace_weights.size(), silent ? 0U : 1U);
      EXPECT_EQ(unwrapped(g.explain()).find("0 of 2 parameters are learned online") != std::string::npos,
                silent);
      if (!silent) continue;
      const CompilationRecord r = g.explain_records({{}, {}, Kind::TRACE_WITHOUT_SIGNAL}).at(0);
      EXPECT_EQ(r.weight_path, StatePath{"w"});
      EXPECT_THAT(r.message, HasSubstr("w is traced into h; no result of the same step depends on that"));
      EXPECT_THAT(r.message, HasSubstr("through late, where no trace of it is kept"));
      EXPECT_THAT(report.to_string(), HasSubstr("w: a weight is traced into hidden states that no result"));
      CompileOptions strict;
      strict.strict = true;
      EXPECT_THROW(compile_etrace_graph(m, strict), CompilationError);
    }
}

}  // namespace
}  // namespace etrace
