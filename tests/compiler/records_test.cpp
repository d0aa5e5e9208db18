// One test per kind of record: a step that makes the compiler emit it, at the level and with the context that
// docs/diagnostics.md names.
#include <gtest/gtest.h>

#include <algorithm>

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
using testing::param;
using testing::step_model;
using Kind = DiagnosticKind;
using Level = DiagnosticLevel;

using Inputs = std::vector<testing::StepInput>;

std::vector<CompilationRecord> records_of(const Inputs& inputs, const std::function<Array(In&)>& step,
                                          const CompileOptions& options = {}) {
  const Model m = step_model(inputs, step);
  try {
    return compile_etrace_graph(m, options).diagnostics;
  } catch (const WithRecords<NotSupportedError>& e) {
    return e.records;
  }
}

// The only record of that kind; its level and context keys are checked.
CompilationRecord only(const std::vector<CompilationRecord>& records, Kind kind, Level level,
                       const std::vector<std::string>& keys) {
  std::vector<CompilationRecord> found;
  for (const CompilationRecord& r : records)
    if (r.kind == kind) found.push_back(r);
  EXPECT_EQ(found.size(), 1U) << name(kind);
  if (found.empty()) return {};
  EXPECT_EQ(found[0].level, level) << to_string(found[0]);
  EXPECT_FALSE(found[0].message.empty());
  for (const std::string& key : keys) {
    bool has = false;
    for (const auto& [k, v] : found[0].context) has = has || k == key;
    EXPECT_TRUE(has) << name(kind) << " lacks context key " << key;
  }
  return found[0];
}

const Inputs kCell{arg("x", {3}), hidden("h", {4}), param("w", {3, 4}), param("u", {4, 4})};

Array decaying(In& in, const Array& drive) {
  in.set("h", 0.9 * in["h"] + drive);
  return in["h"];
}

TEST(Records, RelationIncluded) {
  const auto r = only(records_of(kCell, [](In& in) { return decaying(in, matmul(in["x"], in["w"])); }),
                      Kind::RELATION_INCLUDED, Level::Info, {"hidden_group_indices", "path_classification"});
  EXPECT_EQ(to_string(*r.weight_path), "w");
  EXPECT_EQ(r.primitive, "etp_mv");
}

TEST(Records, ShapeMismatchAndNonTemporal) {
  const Inputs sliced{arg("x", {3}), hidden("h", {3}), param("w", {3, 4})};
  const auto mismatch = records_of(sliced, [](In& in) {
    in.set("h", 0.5 * in["h"] + slice(matmul(in["x"], in["w"]), {0}, {3}));
    return in["h"];
  });
  only(mismatch, Kind::RELATION_EXCLUDED_SHAPE_MISMATCH, Level::Warning, {"y_shape", "hidden_shape"});
  only(mismatch, Kind::RELATION_EXCLUDED_NON_TEMPORAL, Level::Info, {});
  CompileOptions compat;
  compat.compat = Compat::Braintrace;
  const auto readout = records_of(
      kCell, [](In& in) { return matmul(in["x"], in["w"]); }, compat);
  only(readout, Kind::RELATION_EXCLUDED_NON_TEMPORAL, Level::Warning, {});
}

// A weight with two uses, one of which reaches no state: the record of that one names the other.
TEST(Records, NonTemporalSaysWhereElseTheWeightIsTraced) {
  const Inputs square{arg("x", {3}), hidden("h", {3}), param("w", {3, 3}), param("u", {3, 3})};
  const auto r = only(records_of(square,
                                 [](In& in) {
                                   in.set("h", 0.5 * in["h"] + matmul(in["x"], in["w"]));
                                   return matmul(in["h"], in["w"]) + 1.0;
                                 }),
                      Kind::RELATION_EXCLUDED_NON_TEMPORAL, Level::Info, {});
  EXPECT_EQ(r.message,
            "w reaches no hidden state (through etp_mv), so there is no eligibility trace of this use; w is "
            "traced through etp_mv into h");
  EXPECT_EQ(r.note, "nothing: what this use adds is the gradient of the current step, which it gets");
  const auto alone = only(records_of(square,
                                     [](In& in) {
                                       in.set("h", 0.5 * in["h"] + matmul(in["x"], in["w"]));
                                       return matmul(in["h"], in["u"]);
                                     }),
                          Kind::RELATION_EXCLUDED_NON_TEMPORAL, Level::Info, {});
  EXPECT_EQ(alone.message.find("traced through"), std::string::npos);
}

TEST(Records, WeightToWeightNamesTheBlocker) {
  const auto r =
      only(records_of(kCell, [](In& in) { return decaying(in, matmul(matmul(in["x"], in["w"]), in["u"])); }),
           Kind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT, Level::Warning,
           {"blocking_primitives", "blocking_weight_paths"});
  EXPECT_NE(r.message.find("trainable ETP primitive"), std::string::npos);
  EXPECT_NE(r.message.find("u"), std::string::npos);
}

// A cell with a matrix memory: the keys enter the normaliser as they are, and the matrix by an outer product,
// which no trace follows. What is traced is not all of the weight's ways, and every record of it says so.
TEST(Records, WhatElseOfATracedWeightIsLeftOut) {
  const Model m = step_model(
      {arg("x", {2, 3}), hidden("c", {2, 4, 4}), hidden("n", {2, 4}), param("k", {3, 4}), param("v", {3, 4})},
      [](In& in) {
        const Array key = matmul(in["x"], in["k"]), value = matmul(in["x"], in["v"]);
        in.set("c", 0.9 * in["c"] + expand_dims(value, {2}) * expand_dims(key, {1}));
        in.set("n", 0.9 * in["n"] + key);
        return sum(in["c"], {1}) / (1.0 + square(in["n"]));
      });
  const ETraceGraph g = compile_etrace_graph(m);
  ASSERT_EQ(g.hidden_param_op_relations.size(), 1U);
  EXPECT_EQ(g.hidden_param_op_relations[0].path_classification[0], PathClassification::Mixed);
  const auto r = only(g.diagnostics, Kind::RELATION_INCLUDED, Level::Info,
                      {"path_classification", "left_out_hidden_paths"});
  EXPECT_EQ(r.message,
            "k is traced through etp_mm into n; not traced into c ([2,4] does not fit its shape [2,4,4])");
  EXPECT_EQ(to_string(Attr::dict(r.context)).find("all_direct"), std::string::npos);
  EXPECT_EQ(g.explain().find("all_direct"), std::string::npos) << g.explain();
  const auto v = only(g.diagnostics, Kind::RELATION_EXCLUDED_NON_TEMPORAL, Level::Info, {});
  EXPECT_NE(v.message.find("v reaches no hidden state of a shape that fits"), std::string::npos) << v.message;

  CompileOptions compat;
  compat.compat = Compat::Braintrace;
  const ETraceGraph reference = compile_etrace_graph(m, compat);
  for (const PathClassification c : reference.hidden_param_op_relations[0].path_classification)
    EXPECT_EQ(c, PathClassification::AllDirect);
}

// The same where another use of the weight leads through a further one.
TEST(Records, AnotherUseOfATracedWeightThatIsLeftOut) {
  const Model m =
      step_model({arg("x", {4}), hidden("h", {4}), param("w", {4, 4}), param("u", {4, 4})}, [](In& in) {
        const Array direct = matmul(in["x"], in["w"]);
        return decaying(in, direct + matmul(tanh(matmul(2.0 * in["x"], in["w"])), in["u"]));
      });
  const ETraceGraph g = compile_etrace_graph(m);
  std::string included;
  for (const CompilationRecord& r : g.diagnostics)
    if (r.kind == Kind::RELATION_INCLUDED) included += r.message + "\n";
  EXPECT_EQ(included,
            "w is traced through etp_mv into h; not traced into h (only through etp_mv of u)\n"
            "u is traced through etp_mv into h\n");
  EXPECT_EQ(g.hidden_param_op_relations.at(0).path_classification[0], PathClassification::Mixed);
  EXPECT_EQ(g.hidden_param_op_relations.at(1).path_classification[0], PathClassification::AllDirect);
  EXPECT_NE(g.explain().find("another use is not traced: w reaches hidden states only through another"),
            std::string::npos)
      << g.explain();
}

TEST(Records, PartialPath) {
  only(records_of(kCell,
                  [](In& in) {
                    const Array y = matmul(in["x"], in["w"]);
                    return decaying(in, y + matmul(y, in["u"]));
                  }),
       Kind::RELATION_PARTIAL_PATH, Level::Warning, {"classification"});
}

TEST(Records, NoParamstateAndNotAParamstate) {
  const Array constant = full({3, 4}, 0.1, Dtype::F64), bias = array({1, 2, 3, 4}, Dtype::F64);
  only(records_of(kCell, [&](In& in) { return decaying(in, matmul(in["x"], constant)); }),
       Kind::RELATION_EXCLUDED_NO_PARAMSTATE, Level::Warning, {"trainable_var", "key"});
  only(records_of(kCell, [&](In& in) { return decaying(in, matmul(in["x"], in["w"], bias)); }),
       Kind::TRAINABLE_INVAR_NOT_PARAMSTATE, Level::Info, {"key", "invar_index"});
}

// The reason names the parameter and what it is mixed with, and the report finds it.
TEST(Records, AWeightThatChangesFromStepToStep) {
  Inputs inputs = kCell;
  inputs.push_back(hidden("mask", {3, 4}));
  const Model m = step_model(
      inputs, [](In& in) { return decaying(in, matmul(in["x"], in["w"] * in["mask"] * sum(in["x"]))); });
  const ETraceGraph g = compile_etrace_graph(m);
  const auto r =
      only(g.diagnostics, Kind::RELATION_EXCLUDED_NO_PARAMSTATE, Level::Warning, {"trainable_var", "key"});
  EXPECT_EQ(r.weight_path, StatePath{"w"});
  EXPECT_NE(r.message.find("parameter w together with argument 0, state mask"), std::string::npos)
      << r.message;
  EXPECT_NE(r.note.find("or multiply the operator's input or result"), std::string::npos) << r.note;
  const CompilationReport report(g);
  EXPECT_EQ(report.excluded_weights.at(0).reason, Kind::RELATION_EXCLUDED_NO_PARAMSTATE);
}

TEST(Records, MultiOutputOperator) {
  static const EtpRules rules{.trainables =
                                  [](const Params&) {
                                    return std::vector<Trainable>{{"weight", 1}};
                                  },
                              .anchors =
                                  [](const Params&, std::string_view, std::span<const Aval> in, const Aval&) {
                                    return AnchorMap{in[1].shape, {1}, {}, {}};
                                  }};
  static const Primitive two_results{{.name = "test_two_results",
                                      .doc = "y = x·W, and its square",
                                      .abstract =
                                          [](const Params&, std::span<const Aval> in) {
                                            const Aval y{in[1].dtype, {in[1].shape[1]}};
                                            return Avals{y, y};
                                          },
                                      .lower =
                                          [](const Params&, ArraySpan in) {
                                            const Array y = dot(in[0], in[1]);
                                            return Arrays{y, square(y)};
                                          },
                                      .etp = make_etp(rules)}};
  only(records_of(kCell,
                  [&](In& in) {
                    return decaying(in, bind_primitive(two_results, {in["x"], in["w"]})[0]);
                  }),
       Kind::MULTI_OUTPUT_PRIMITIVE_DETECTED, Level::Info, {"num_outvars", "y_outvar_index"});
}

TEST(Records, TailAndTransitionThatMovePositions) {
  const auto records = records_of(kCell, [](In& in) {
    in.set("h", 0.5 * in["h"] - sum(in["h"]) + roll(matmul(in["x"], in["w"]), 1, 0));
    return in["h"];
  });
  only(records, Kind::TRANSITION_TAIL_BOUNDED, Level::Warning, {"reason"});
  only(records, Kind::TRANSITION_MIXES_POSITIONS, Level::Info, {"reason"});
}

TEST(Records, RecurrenceDroppedAndDiagonalProductKept) {
  const auto back_through = [](const std::function<Array(In&)>& matrix) {
    return records_of(kCell, [&](In& in) {
      in.set("h", tanh(dot(in["h"], matrix(in)) + matmul(in["x"], in["w"])));
      return in["h"];
    });
  };
  const auto r = only(back_through([](In& in) { return in["u"]; }), Kind::RECURRENCE_DROPPED, Level::Info,
                      {"group", "from", "to", "trainable"});
  EXPECT_EQ(r.primitive, "dot_general");
  EXPECT_EQ(to_string(*r.weight_path), "u");
  only(back_through([](In&) { return 0.8 * eye(4, Dtype::F64); }), Kind::DIAGONAL_PRODUCT_KEPT, Level::Info,
       {"size"});
}

TEST(Records, GroupMerged) {
  const auto r = only(records_of({arg("x", {4}), hidden("g", {4}), hidden("v", {4})},
                                 [](In& in) {
                                   in.set("g", 0.8 * in["g"] + in["x"]);
                                   in.set("v", 0.9 * in["v"] + in["g"]);
                                   return in["v"];
                                 }),
                      Kind::HIDDEN_GROUP_MERGED, Level::Info, {});
  EXPECT_EQ(r.hidden_paths.size(), 2U);
}

struct Forgetful : Module {
  ParamState& w = param("w", full({3, 4}, 0.1, Dtype::F64));
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  HiddenState& unused = hidden("unused", {4}, Dtype::F64);
  Array update(const Array& x) override {
    h.set(0.5 * h.value() + matmul(x, w.value()));
    return h.value();
  }
};

TEST(Records, StateMismatch) {
  Forgetful model;
  init_all_states(model);
  const ETraceGraph g = compile_etrace_graph(model, zeros({3}, Dtype::F64));
  const auto r = only(g.diagnostics, Kind::STATE_MISMATCH, Level::Warning, {"direction", "state_path"});
  EXPECT_EQ(to_string(*r.weight_path), "unused");
}

Arrays loop(In& in, const Array& start, std::int64_t length,
            const std::function<Array(const Array& h, const Array& x)>& body, bool reverse = false) {
  const Array xs = broadcast_to(in["x"], {length, 3});
  return scan(
             [&](ArraySpan c, ArraySpan x) -> ScanResult {
               return {{body(c[0], x[0])}, {}};
             },
             {start}, {xs}, {.reverse = reverse})
      .carry;
}

Array leaky_body(In& in, const Array& h, const Array& x) { return 0.9 * h + matmul(x, in["w"]); }

TEST(Records, LoopsUnrolledAndDescended) {
  const auto step = [](std::int64_t n, bool scaled = false, bool reverse = false) {
    return [=](In& in) {
      const Array start = scaled ? 0.5 * in["h"] : in["h"];
      in.set("h", loop(
                      in, start, n, [&](const Array& h, const Array& x) { return leaky_body(in, h, x); },
                      reverse)[0]);
      return in["h"];
    };
  };
  only(records_of(kCell, step(3)), Kind::SCAN_UNROLLED, Level::Info,
       {"length", "num_consts", "num_carry", "reverse", "reason"});
  const auto descended = records_of(kCell, step(40));
  only(descended, Kind::SCAN_UNROLL_SKIPPED, Level::Info, {"reason", "relevance"});
  only(descended, Kind::SCAN_DESCENT_APPLIED, Level::Info, {"length", "weight_paths"});
  const auto scaled = records_of(kCell, step(40, true));
  EXPECT_NE(only(scaled, Kind::SCAN_DESCENT_SKIPPED, Level::Warning, {}).message.find("transformed value"),
            std::string::npos);
  only(scaled, Kind::WEIGHT_IN_CONTROL_FLOW, Level::Error, {"op_name", "invar"});
  const auto reversed = records_of(kCell, step(40, false, true));
  EXPECT_NE(only(reversed, Kind::SCAN_DESCENT_SKIPPED, Level::Warning, {"blocker", "length"})
                .message.find("reverse"),
            std::string::npos);
  CompileOptions off;
  off.control_flow.scan_descent = ControlFlowPolicy::Descent::Off;
  only(records_of(kCell, step(40), off), Kind::SCAN_UNROLL_SKIPPED, Level::Warning, {"reason"});
}

TEST(Records, PlainProductInADescendedLoop) {
  only(records_of(kCell,
                  [](In& in) {
                    in.set("h", loop(in, in["h"], 40, [&](const Array& h, const Array& x) {
                             return 0.9 * h + dot(x, in["w"]);
                           })[0]);
                    return in["h"];
                  }),
       Kind::SCAN_DESCENT_NO_RELATIONS, Level::Warning, {"weight_paths"});
}

TEST(Records, SlicedWeight) {
  only(records_of({arg("x", {4}), hidden("h", {4}), param("w", {3, 4, 4})},
                  [](In& in) {
                    in.set("h", scan(
                                    [&](ArraySpan c, ArraySpan w) -> ScanResult {
                                      return {{tanh(matmul(c[0], w[0]))}, {}};
                                    },
                                    {in["h"]}, {in["w"]})
                                    .carry[0]);
                    return in["h"];
                  }),
       Kind::RELATION_EXCLUDED_SLICED_WEIGHT, Level::Warning, {"relevance", "n_sliced"});
}

Array branch(In& in, bool loop_inside) {
  const Function yes = [&](ArraySpan a) {
    if (!loop_inside) return Arrays{matmul(a[0], a[1])};
    const Array y = matmul(a[0], a[1]);
    return while_loop([](ArraySpan c) { return sum(c[0]) > 100.0; },
                      [](ArraySpan c) { return Arrays{0.5 * c[0]}; }, {y});
  };
  const Function no = [](ArraySpan a) { return Arrays{matmul(2.0 * a[0], a[1])}; };
  return decaying(in, cond(sum(in["x"]) > 0.0, yes, no, Arrays{in["x"], in["w"]})[0]);
}

TEST(Records, Conditionals) {
  only(records_of(kCell, [](In& in) { return branch(in, false); }), Kind::COND_IF_CONVERTED, Level::Info,
       {"n_branches", "n_outputs", "reason"});
  only(records_of(kCell, [](In& in) { return branch(in, true); }), Kind::COND_CONVERSION_SKIPPED,
       Level::Warning, {"reason", "relevance"});
}

Array settle(In& in, bool mixes, bool weight_inside) {
  const Array r = full({4, 4}, 0.1, Dtype::F64), pre = matmul(in["x"], in["w"]) + 0.8 * in["h"];
  const Arrays out = while_loop([](ArraySpan c) { return c[1] < 3; },
                                [&](ArraySpan c) {
                                  Array s = mixes ? dot(c[0], r) : c[0];
                                  if (weight_inside) s = s + dot(c[0], in["u"]);
                                  return Arrays{c[0] + 0.5 * tanh(pre - s), c[1] + Array(1)};
                                },
                                {in["h"], full({}, std::int64_t{0}, Dtype::I32)});
  in.set("h", out[0]);
  return in["h"];
}

TEST(Records, WhileLoops) {
  const auto plain = records_of(kCell, [](In& in) { return settle(in, false, false); });
  EXPECT_GE(std::count_if(plain.begin(), plain.end(),
                          [](const CompilationRecord& r) { return r.kind == Kind::CONTROL_FLOW_OPAQUE_FWD; }),
            1);
  only(records_of(kCell, [](In& in) { return settle(in, true, false); }), Kind::CONTROL_FLOW_RECURRENT_MIXING,
       Level::Warning, {"op_name"});
  only(records_of(kCell, [](In& in) { return settle(in, false, true); }), Kind::WEIGHT_IN_WHILE, Level::Error,
       {"op_name", "invar"});
}

TEST(Records, OperatorInsideAnOpaqueBody) {
  // The weight is a constant here, so that only the operator itself is the matter.
  const Array constant = full({4, 4}, 0.1, Dtype::F64);
  const auto step = [&](In& in) {
    const Arrays out =
        while_loop([](ArraySpan c) { return sum(c[0]) > 100.0; },
                   [&](ArraySpan c) { return Arrays{matmul(c[0], constant)}; }, {matmul(in["x"], in["w"])});
    return decaying(in, out[0]);
  };
  only(records_of(kCell, step), Kind::PRIMITIVE_INSIDE_CONTROL_FLOW, Level::Error, {});
  CompileOptions exclude;
  exclude.control_flow.etp_in_control_flow = ControlFlowPolicy::EtpInside::Exclude;
  only(records_of(kCell, step, exclude), Kind::PRIMITIVE_INSIDE_CONTROL_FLOW, Level::Warning, {});
}

TEST(Records, SnapPatterns) {
  CompileOptions snap;
  snap.include_recurrent_mixing = true;
  snap.sparse_n = 2;
  only(records_of(
           kCell, [](In& in) { return decaying(in, matmul(in["x"], in["w"])); }, snap),
       Kind::SNAP_PATTERN_DEGENERATE, Level::Info, {"sparse_n"});
  only(records_of(
           kCell, [](In& in) { return decaying(in, matmul(in["x"], in["w"]) - sum(in["h"])); }, snap),
       Kind::SNAP_PATTERN_CONSERVATIVE, Level::Warning, {"num_neighbour", "num_position", "sparse_n"});
}

}  // namespace
}  // namespace etrace
