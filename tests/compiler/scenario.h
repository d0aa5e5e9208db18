// What the scenario tests of the compiler share: small cells, graphs in one line of text, and the values of a
// compiled program. Numbers in test names (S41) count the scenarios of docs/scenarios.md.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "etrace/compiler.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "support/functions.h"
#include "support/step_model.h"

namespace etrace::testing {

using Kind = DiagnosticKind;
using Step = std::function<Array(In&)>;
using Inputs = std::vector<StepInput>;

inline Array cat(const Array& a, const Array& b) { return concatenate(Arrays{a, b}, -1); }

// Options ---------------------------------------------------------------------------------------------------
inline CompileOptions mixing() {
  CompileOptions o;
  o.include_recurrent_mixing = true;
  return o;
}
inline CompileOptions compat() {
  CompileOptions o;
  o.compat = Compat::Braintrace;
  return o;
}
inline CompileOptions snap(std::int64_t n) {
  CompileOptions o = mixing();
  o.sparse_n = n;
  return o;
}

// A step on x [3] and h [4]; more inputs by name.
inline Model cell(const Step& step, const Inputs& more = {}) {
  Inputs inputs{arg("x", {3}), hidden("h", {4})};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return step_model(inputs, step);
}
inline ETraceGraph compile_cell(const Step& step, const Inputs& more = {},
                                const CompileOptions& options = {}) {
  return compile_etrace_graph(cell(step, more), options);
}
inline Model reference_model(const std::string& name) {
  return read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
}

// `length` sub-steps h ← 0.9 h + 0.3 tanh(x·w), with mixing_body … tanh(x·w + h·u); "w" and "u" must be
// inputs.
inline Array inner_loop(In& in, std::int64_t length, bool mixing_body) {
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

// What was found --------------------------------------------------------------------------------------------
inline std::size_t count(const std::vector<CompilationRecord>& records, Kind kind) {
  std::size_t n = 0;
  for (const CompilationRecord& r : records) n += r.kind == kind ? 1 : 0;
  return n;
}
inline std::size_t count(const ETraceGraph& g, Kind kind) { return count(g.diagnostics, kind); }

// Equations of that primitive, at the top level.
inline std::size_t count(const Jaxpr& program, const Primitive& primitive) {
  std::size_t n = 0;
  for (const Eqn& e : program.eqns) n += e.prim == &primitive ? 1 : 0;
  return n;
}

// "w->h w2->h,c": every relation, in order.
inline std::string relations(const ETraceGraph& g) {
  std::string text;
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
    text += (text.empty() ? "" : " ") + to_string(r.path()) + "->";
    for (std::size_t i = 0; i < r.connected_hidden_paths.size(); ++i)
      text += (i ? "," : "") + to_string(r.connected_hidden_paths[i]);
  }
  return text;
}

// "[h] [c d]"
inline std::string groups(const ETraceGraph& g) {
  std::string text;
  for (const HiddenGroup& group : g.hidden_groups) {
    text += text.empty() ? "[" : " [";
    for (std::size_t i = 0; i < group.hidden_paths.size(); ++i)
      text += (i ? " " : "") + to_string(group.hidden_paths[i]);
    text += "]";
  }
  return text;
}

// Values ----------------------------------------------------------------------------------------------------
// Arguments drawn from a seed, states at their initial values.
inline Arrays inputs_of(const Model& m, std::uint64_t seed = 5) {
  Random random(seed);
  Arrays inputs;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    inputs.push_back(m.inputs[i].role == Role::Arg
                         ? Array(random.tensor(m.program.jaxpr.invars[i].aval, 0.0, 1.0))
                         : Array(m.inputs[i].init));
  return inputs;
}

// Every value that the compiled program returns, by Var.
class Values {
 public:
  Values(const ETraceGraph& g, const Model& m, std::uint64_t seed = 5) {
    const Arrays out = eval_jaxpr(g.module_info.closed_jaxpr, inputs_of(m, seed));
    for (std::size_t i = 0; i < out.size(); ++i)
      if (const Var* v = as_var(g.module_info.jaxpr().outs[i])) values_.emplace(v->id, out[i]);
  }
  Array operator[](const Var& v) const { return values_.at(v.id); }
  Arrays operator[](const std::vector<Var>& vars) const {
    Arrays out;
    for (const Var& v : vars) out.push_back((*this)[v]);
    return out;
  }

 private:
  std::unordered_map<std::uint64_t, Array> values_;
};

inline Array diagonal_jacobian(const HiddenGroup& group, const Values& values) {
  return group.diagonal_jacobian(values[group.hidden_invars], values[group.transition_jaxpr.constvars]);
}
inline Array full_jacobian(const HiddenGroup& group, const Values& values) {
  return group.full_jacobian(values[group.hidden_invars], values[group.transition_jaxpr.constvars]);
}
// [*varshape, S, *varshape, S] -> the block of every position, [*varshape, S, S].
inline Array blocks_of(const HiddenGroup& group, const Array& full) {
  const std::int64_t p = group.varshape().size(), s = group.num_state();
  const Array rows = reshape(full, {p, s, p, s});
  Arrays blocks;
  for (std::int64_t i = 0; i < p; ++i)
    blocks.push_back(reshape(slice(rows, {i, 0, i, 0}, {i + 1, s, i + 1, s}), {s, s}));
  Dims dims = group.varshape().to_dims();
  dims.push_back(s);
  dims.push_back(s);
  return reshape(stack(blocks, 0), dims);
}

// The program before and after flattening gives the same values and derivatives, in both modes, for every
// given first argument (by default one with a positive and one with a negative sum, for conditionals on it).
inline ModuleInfo expect_same_meaning(const Model& m, const CompileOptions& options = {}, Arrays first = {}) {
  Reporter reporter;
  ModuleInfo info = extract_module_info(m, reporter, options);
  check(info.closed_jaxpr);
  const Function before = [&](ArraySpan x) { return eval_jaxpr(m.program, x); },
                 after = [&](ArraySpan x) { return eval_jaxpr(info.closed_jaxpr, x); };
  const Arrays inputs = inputs_of(m);
  if (first.empty()) first = {inputs[0], -inputs[0]};
  Random random(6);
  for (const Array& x0 : first) {
    Arrays x = inputs;
    x[0] = x0;
    Arrays tangents = x, cotangents = x;
    for (const Array& a : x) tangents.push_back(random.tensor(a.aval()));
    for (const Aval& a : m.program.out_avals()) cotangents.push_back(random.tensor(a));
    expect_same(after(x), before(x));
    expect_same(jvp(after)(tangents), jvp(before)(tangents));
    expect_same(eval_jaxpr(vjp(info.closed_jaxpr), cotangents), eval_jaxpr(vjp(m.program), cotangents));
  }
  return info;
}

// A cell that takes its drive through one of two weights, as the input says.
inline const Inputs kTwoWeights{param("wa", {3, 4}), param("wb", {3, 4})};
inline Array two_way(In& in) {
  const Arrays drive = cond(
      sum(in["x"]) > 0.0, [&](ArraySpan a) { return Arrays{matmul(a[0], a[1])}; },
      [&](ArraySpan a) { return Arrays{matmul(a[0], a[2])}; }, Arrays{in["x"], in["wa"], in["wb"]});
  in.set("h", 0.9 * in["h"] + tanh(drive[0]));
  return in["h"];
}

}  // namespace etrace::testing
