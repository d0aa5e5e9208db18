// Conditionals to selections, short loops to straight lines. One sweep handles every top-level equation once;
// the driver repeats sweeps until one changes nothing. Start at canonicalize_control_flow.
#include "compiler/canonicalize.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/loops.h"
#include "control/splice.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"

namespace etrace {

bool contains_etp(const Jaxpr& jaxpr) {
  for (const Eqn& eqn : jaxpr.eqns) {
    if (is_etp(*eqn.prim)) return true;
    for (const JaxprPtr& nested : nested_jaxprs(eqn))
      if (contains_etp(nested->jaxpr)) return true;
  }
  return false;
}

namespace {

bool contains_while(const Jaxpr& jaxpr) {
  for (const Eqn& eqn : jaxpr.eqns) {
    if (is_while(eqn)) return true;
    for (const JaxprPtr& nested : nested_jaxprs(eqn))
      if (contains_while(nested->jaxpr)) return true;
  }
  return false;
}

bool bodies_contain_while(const Eqn& eqn) {
  for (const JaxprPtr& nested : nested_jaxprs(eqn))
    if (contains_while(nested->jaxpr)) return true;
  return false;
}

// Why the analysis cares about an equation with bodies; empty if it does not.
std::string relevance(const Eqn& eqn, const RelevanceTables& t) {
  for (const Atom& a : eqn.in)
    if (const Var* v = as_var(a)) {
      if (t.weights.contains(v->id)) return "a weight enters it";
      if (t.hidden_in.contains(v->id)) return "a hidden state enters it";
    }
  for (const Var& v : eqn.out)
    if (t.hidden_out.contains(v.id)) return "it produces a hidden state";
  for (const JaxprPtr& nested : nested_jaxprs(eqn))
    if (contains_etp(nested->jaxpr)) return "it contains a trainable operator";
  return {};
}

// Why a scan cannot be unrolled; empty if it can.
std::string unroll_obstacle(const Eqn& scan, const ControlFlowPolicy& policy) {
  const std::int64_t length = scan.params.integer("length");
  if (policy.scan_unroll_limit <= 0) return "unrolling is disabled";
  if (length < 1) return "its length is 0";
  if (length > policy.scan_unroll_limit)
    return fmt::format("its length {} is over scan_unroll_limit={}", length, policy.scan_unroll_limit);
  if (bodies_contain_while(scan)) return "its body contains a while loop";
  return {};
}

std::string scan_obstacle_inside(const Jaxpr& jaxpr, const ControlFlowPolicy& policy) {
  for (const Eqn& eqn : jaxpr.eqns) {
    if (is_scan(eqn))
      if (const std::string why = unroll_obstacle(eqn, policy); !why.empty())
        return "a branch holds a scan that stays: " + why;
    for (const JaxprPtr& nested : nested_jaxprs(eqn))
      if (const std::string why = scan_obstacle_inside(nested->jaxpr, policy); !why.empty()) return why;
  }
  return {};
}

std::string convert_obstacle(const Eqn& cond, const ControlFlowPolicy& policy) {
  if (bodies_contain_while(cond)) return "a branch contains a while loop";
  for (const JaxprPtr& branch : nested_jaxprs(cond))
    if (const std::string why = scan_obstacle_inside(branch->jaxpr, policy); !why.empty()) return why;
  return {};
}

CompilationRecord record_of(DiagnosticKind kind, DiagnosticLevel level, const Eqn& eqn, std::string message,
                            Attr::Dict context, std::string note = {}) {
  return {kind,      level, std::move(message), std::string(eqn.prim->name()),
          {},        {},    std::move(context), std::move(note),
          eqn.origin};
}

// One pass over the top-level equations. Rewrites are reported at once, equations left alone at the end of
// the last sweep.
struct Sweep {
  const RelevanceTables& tables;
  const ControlFlowPolicy& policy;
  Reporter& reporter;
  std::vector<CompilationRecord> skipped;
  std::vector<std::string> rewritten;  // what the sweep changed, for the error of a runaway fixpoint

  // Conditionals, nested ones included.
  ClosedJaxpr conds(const ClosedJaxpr& in) {
    ClosedJaxpr out{{in.jaxpr.constvars, in.jaxpr.invars, {}, in.jaxpr.outs}, in.consts};
    convert_all(in.jaxpr.eqns, out);
    return out;
  }

  void convert_all(const std::vector<Eqn>& eqns, ClosedJaxpr& out) {
    for (const Eqn& eqn : eqns) {
      const std::string reason = is_cond(eqn) ? relevance(eqn, tables) : std::string();
      if (reason.empty()) {
        out.jaxpr.eqns.push_back(eqn);
        continue;
      }
      if (const std::string why = convert_obstacle(eqn, policy); !why.empty()) {
        skipped.push_back(
            record_of(DiagnosticKind::COND_CONVERSION_SKIPPED, DiagnosticLevel::Warning, eqn,
                      "a conditional was NOT if-converted: " + why, {{"reason", why}, {"relevance", reason}},
                      "move the trainable operator out of the conditional, or choose with where()"));
        out.jaxpr.eqns.push_back(eqn);
        continue;
      }
      convert(eqn, reason, out);
    }
  }

  void convert(const Eqn& eqn, const std::string& reason, ClosedJaxpr& out) {
    const std::vector<JaxprPtr> branches = eqn.params.jaxprs("branches");
    reporter.emit(
        record_of(DiagnosticKind::COND_IF_CONVERTED, DiagnosticLevel::Info, eqn,
                  fmt::format("a conditional of {} branches became a selection: {}", branches.size(), reason),
                  {{"n_branches", branches.size()}, {"n_outputs", eqn.out.size()}, {"reason", reason}}));
    rewritten.push_back(fmt::format("cond (branches={})", branches.size()));
    const std::vector<Atom> args(eqn.in.begin() + 1, eqn.in.end());
    std::vector<std::vector<Atom>> results;
    for (const JaxprPtr& branch : branches) {
      std::vector<Eqn> body;
      results.push_back(splice(*branch, args, out, body));
      convert_all(body, out);
    }
    const Atom index = clamped_index(eqn, branches.size(), out);
    for (std::size_t k = 0; k < eqn.out.size(); ++k) {
      std::vector<Atom> in{index};
      for (const auto& r : results) in.push_back(r[k]);
      out.jaxpr.eqns.push_back(make_eqn(select_n_p, same_shape(std::move(in), eqn.out[k].aval, out),
                                        {eqn.out[k]}, {}, eqn.origin));
    }
  }

  // JAX has clamped the index already; one that we trace ourselves may be anything. A boolean selects among
  // two.
  static Atom clamped_index(const Eqn& eqn, std::size_t branches, ClosedJaxpr& out) {
    const Atom& index = eqn.in[0];
    const Aval aval = aval_of(index);
    if (aval.dtype == Dtype::Bool || branches == 1) return index;
    const Var clamped = fresh_var(aval);
    out.jaxpr.eqns.push_back(make_eqn(clamp_p,
                                      {Literal{aval.dtype, std::int64_t{0}}, index,
                                       Literal{aval.dtype, static_cast<std::int64_t>(branches) - 1}},
                                      {clamped}, {}, eqn.origin));
    return clamped;
  }

  // A branch may return a literal where the others return an array.
  static std::vector<Atom> same_shape(std::vector<Atom> in, const Aval& wanted, ClosedJaxpr& out) {
    for (std::size_t i = 1; i < in.size(); ++i) {
      if (aval_of(in[i]).shape == wanted.shape) continue;
      const Var full = fresh_var(wanted);
      out.jaxpr.eqns.push_back(make_eqn(broadcast_in_dim_p, {in[i]}, {full},
                                        {{"shape", wanted.shape}, {"broadcast_dimensions", Dims{}}}));
      in[i] = full;
    }
    return in;
  }

  ClosedJaxpr scans(const ClosedJaxpr& in) {
    ClosedJaxpr out{{in.jaxpr.constvars, in.jaxpr.invars, {}, in.jaxpr.outs}, in.consts};
    const ProgramIndex index(in.jaxpr);
    VarIds consumed;
    for (const Atom& a : in.jaxpr.outs)
      if (const Var* v = as_var(a)) consumed.insert(v->id);
    for (const Eqn& eqn : in.jaxpr.eqns)
      for (const Atom& a : eqn.in)
        if (const Var* v = as_var(a)) consumed.insert(v->id);
    for (const Eqn& eqn : in.jaxpr.eqns) {
      const std::string reason = is_scan(eqn) ? relevance(eqn, tables) : std::string();
      if (reason.empty() || !may_unroll(eqn, reason, index)) {
        out.jaxpr.eqns.push_back(eqn);
        continue;
      }
      unroll(eqn, reason, consumed, out);
    }
    return out;
  }

  bool may_unroll(const Eqn& eqn, const std::string& reason, const ProgramIndex& index) {
    if (const std::string why = unroll_obstacle(eqn, policy); !why.empty()) {
      const bool too_long = eqn.params.integer("length") > policy.scan_unroll_limit;
      const bool descends = too_long && policy.scan_descent == ControlFlowPolicy::Descent::Auto;
      const char* then = !descends                 ? ""
                         : may_descend(eqn, index) ? "; structured descent may handle it"
                                                   : "; it stays one equation of the step";
      skipped.push_back(record_of(
          DiagnosticKind::SCAN_UNROLL_SKIPPED, descends ? DiagnosticLevel::Info : DiagnosticLevel::Warning,
          eqn, "a loop was NOT unrolled: " + why + then, {{"reason", why}, {"relevance", reason}},
          "raise scan_unroll_limit to unroll it"));
      return false;
    }
    const std::size_t sliced = weights_among_xs(eqn, index);
    if (sliced == 0) return true;
    skipped.push_back(
        record_of(DiagnosticKind::RELATION_EXCLUDED_SLICED_WEIGHT, DiagnosticLevel::Warning, eqn,
                  "a loop scans over a trainable weight, so each step would use another slice of it",
                  {{"relevance", reason}, {"n_sliced", sliced}},
                  "pass the weight as a constant of the loop and index it there"));
    return false;
  }

  // Scanned operands that come from a weight.
  std::size_t weights_among_xs(const Eqn& eqn, const ProgramIndex& index) const {
    const auto first = static_cast<std::ptrdiff_t>(loops::Scan(eqn).first_x());
    return static_cast<std::size_t>(std::count_if(
        eqn.in.begin() + first, eqn.in.end(), [&](const Atom& a) { return comes_from_weight(a, index); }));
  }

  // Without passing an operator: its output is an activation, no longer a weight.
  bool comes_from_weight(const Atom& value, const ProgramIndex& index) const {
    const auto passes = [&](const Eqn& e) { return !is_mixing_etp(e) || tables.weights_pass_operators; };
    const Reached from = backward(index.jaxpr(), ids_of(std::vector<Atom>{value}), {By::Value, passes});
    return std::any_of(from.values.begin(), from.values.end(),
                       [&](std::uint64_t id) { return tables.weights.contains(id); });
  }

  // Descent is for loops that concern a weight; one that only moves hidden states stays one equation.
  bool may_descend(const Eqn& eqn, const ProgramIndex& index) const {
    return contains_etp(loops::Scan(eqn).body->jaxpr) ||
           std::any_of(eqn.in.begin(), eqn.in.end(),
                       [&](const Atom& a) { return comes_from_weight(a, index); });
  }

  void unroll(const Eqn& eqn, const std::string& reason, const VarIds& consumed, ClosedJaxpr& out) {
    const ClosedJaxpr& body = *eqn.params.jaxpr("jaxpr");
    const auto nc = static_cast<std::size_t>(eqn.params.integer("num_consts"));
    const auto nk = static_cast<std::size_t>(eqn.params.integer("num_carry"));
    const std::int64_t length = eqn.params.integer("length");
    const bool reverse = eqn.params.boolean_or("reverse", false);
    reporter.emit(record_of(DiagnosticKind::SCAN_UNROLLED, DiagnosticLevel::Info, eqn,
                            fmt::format("a loop of {} steps was unrolled: {}", length, reason),
                            {{"length", length},
                             {"num_consts", nc},
                             {"num_carry", nk},
                             {"reverse", reverse},
                             {"reason", reason}}));
    rewritten.push_back(fmt::format("scan (length={})", length));
    Renaming constants;
    lift_consts(body, constants, out);
    std::vector<Atom> carry(eqn.in.begin() + static_cast<std::ptrdiff_t>(nc),
                            eqn.in.begin() + static_cast<std::ptrdiff_t>(nc + nk));
    std::vector<std::vector<Atom>> ys(static_cast<std::size_t>(length));
    for (std::int64_t step = 0; step < length; ++step) {
      const std::int64_t t = reverse ? length - 1 - step : step;
      Renaming names = constants;
      for (std::size_t i = 0; i < nc; ++i) names.set(body.jaxpr.invars[i], eqn.in[i]);
      for (std::size_t i = 0; i < nk; ++i) names.set(body.jaxpr.invars[nc + i], carry[i]);
      for (std::size_t i = nc + nk; i < eqn.in.size(); ++i)
        names.set(body.jaxpr.invars[i], slice_at(eqn.in[i], t, eqn, out));
      std::vector<Eqn> copied;
      splice_eqns(body.jaxpr, names, copied);
      std::vector<Atom> results = names(body.jaxpr.outs);
      if (step + 1 == length) name_last_carries(eqn, nk, consumed, copied, results);
      for (Eqn& e : copied) out.jaxpr.eqns.push_back(std::move(e));
      carry.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(nk));
      ys[static_cast<std::size_t>(t)].assign(results.begin() + static_cast<std::ptrdiff_t>(nk),
                                             results.end());
    }
    for (std::size_t i = 0; i < nk; ++i) {
      const Var* v = as_var(carry[i]);
      if (!consumed.contains(eqn.out[i].id) || (v != nullptr && *v == eqn.out[i])) continue;
      out.jaxpr.eqns.push_back(identity(carry[i], eqn.out[i], eqn.origin));
    }
    for (std::size_t i = nk; i < eqn.out.size(); ++i)
      if (consumed.contains(eqn.out[i].id)) stack_results(ys, i - nk, eqn.out[i], eqn.origin, out);
  }

  // The last step writes the loop's own results, so that hidden states keep their Var.
  static void name_last_carries(const Eqn& eqn, std::size_t nk, const VarIds& consumed,
                                std::vector<Eqn>& copied, std::vector<Atom>& results) {
    for (std::size_t i = 0; i < nk; ++i) {
      const Var* made = as_var(results[i]);
      if (made == nullptr || !consumed.contains(eqn.out[i].id)) continue;
      const Var old = *made;
      bool produced = false;
      for (Eqn& e : copied)
        for (Var& v : e.out)
          if (v == old) {
            v = eqn.out[i];
            produced = true;
          }
      if (!produced) continue;
      for (Eqn& e : copied)
        for (Atom& a : e.in)
          if (const Var* v = as_var(a); v != nullptr && *v == old) a = eqn.out[i];
      for (Atom& a : results)
        if (const Var* v = as_var(a); v != nullptr && *v == old) a = eqn.out[i];
    }
  }

  static Eqn identity(const Atom& from, const Var& to, const Origin& origin) {
    Dims axes;
    for (std::size_t i = 0; i < aval_of(from).shape.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
    return make_eqn(broadcast_in_dim_p, {from}, {to},
                    {{"shape", to.aval.shape}, {"broadcast_dimensions", axes}}, origin);
  }

  static Atom slice_at(const Atom& xs, std::int64_t t, const Eqn& eqn, ClosedJaxpr& out) {
    const Aval aval = aval_of(xs);
    Dims start(aval.shape.rank(), 0), limit = aval.shape.to_dims();
    start[0] = t;
    limit[0] = t + 1;
    const Var row = fresh_var({aval.dtype, aval.shape.with(0, 1)}),
              x = fresh_var({aval.dtype, aval.shape.without(0)});
    out.jaxpr.eqns.push_back(
        make_eqn(slice_p, {xs}, {row},
                 {{"start_indices", start}, {"limit_indices", limit}, {"strides", nullptr}}, eqn.origin));
    out.jaxpr.eqns.push_back(make_eqn(squeeze_p, {row}, {x}, {{"dimensions", Dims{0}}}, eqn.origin));
    return x;
  }

  static void stack_results(const std::vector<std::vector<Atom>>& ys, std::size_t k, const Var& result,
                            const Origin& origin, ClosedJaxpr& out) {
    std::vector<Atom> rows;
    for (const auto& step : ys) {
      const Aval aval = aval_of(step[k]);
      Dims axes;
      for (std::size_t i = 0; i < aval.shape.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i) + 1);
      const Var row = fresh_var({aval.dtype, aval.shape.with_front(1)});
      out.jaxpr.eqns.push_back(make_eqn(broadcast_in_dim_p, {step[k]}, {row},
                                        {{"shape", row.aval.shape}, {"broadcast_dimensions", axes}}, origin));
      rows.emplace_back(row);
    }
    out.jaxpr.eqns.push_back(make_eqn(concatenate_p, std::move(rows), {result}, {{"dimension", 0}}, origin));
  }
};

ClosedJaxpr drive(const ClosedJaxpr& in, const RelevanceTables& tables, const ControlFlowPolicy& policy,
                  Reporter& reporter, bool with_conds, bool with_scans, const char* driver) {
  if (policy.fixpoint_iteration_limit < 1)
    throw ValueError(driver, "fixpoint_iteration_limit must be at least 1");
  ClosedJaxpr program = in;
  std::vector<std::string> last;
  for (std::int64_t round = 0; round < policy.fixpoint_iteration_limit; ++round) {
    Sweep cond_sweep{tables, policy, reporter, {}, {}}, scan_sweep{tables, policy, reporter, {}, {}};
    if (with_conds) program = inline_calls(cond_sweep.conds(program));
    if (with_scans) program = inline_calls(scan_sweep.scans(program));
    last = cond_sweep.rewritten;
    last.insert(last.end(), scan_sweep.rewritten.begin(), scan_sweep.rewritten.end());
    if (!last.empty()) continue;
    reporter.append(cond_sweep.skipped);
    reporter.append(scan_sweep.skipped);
    return program;
  }
  std::string names;
  for (const std::string& n : last) names += (names.empty() ? "" : ", ") + n;
  throw CompilationError(
      driver,
      fmt::format(
          "control flow was still being rewritten after fixpoint_iteration_limit={} rounds; last: {}. "
          "Raise the limit, or keep the construct with cond='opaque' or scan_unroll_limit=0",
          policy.fixpoint_iteration_limit, names));
}

}  // namespace

ClosedJaxpr canonicalize_control_flow(const ClosedJaxpr& in, const RelevanceTables& tables,
                                      const ControlFlowPolicy& policy, Reporter& reporter) {
  return drive(in, tables, policy, reporter, policy.cond == ControlFlowPolicy::Cond::Convert,
               policy.scan_unroll_limit > 0, "canonicalize_control_flow");
}

ClosedJaxpr if_convert_conds(const ClosedJaxpr& in, const RelevanceTables& tables,
                             const ControlFlowPolicy& policy, Reporter& reporter) {
  return drive(in, tables, policy, reporter, true, false, "if_convert_conds");
}

ClosedJaxpr unroll_inner_scans(const ClosedJaxpr& in, const RelevanceTables& tables,
                               const ControlFlowPolicy& policy, Reporter& reporter) {
  return drive(in, tables, policy, reporter, false, true, "unroll_inner_scans");
}

}  // namespace etrace
