#include "compiler/scan_descent.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/dropped_ways.h"
#include "compiler/guard.h"
#include "compiler/own_outvars.h"
#include "compiler/trainable_source.h"
#include "control/loops.h"
#include "control/splice.h"
#include "etrace/control.h"

namespace etrace {

namespace {

class Descender {
 public:
  Descender(ModuleInfo& info, Reporter& reporter, const CompileOptions& options)
      : info_(info),
        reporter_(reporter),
        options_(options),
        compat_(options.compat == Compat::Braintrace),
        index_(info.jaxpr()),
        sources_(info, index_, compat_) {}

  DescendedScans run() {
    for (Eqn& eqn : info_.closed_jaxpr.jaxpr.eqns)
      if (is_scan(eqn) && concerns_weights(eqn)) visit(eqn);
    return std::move(found_);
  }

 private:
  // What a value outside the loop is a function of. The reference knows bare leaves only.
  Provenance origin(const Atom& a, TrainableSource& source) const {
    const Var* v = as_var(a);
    if (v == nullptr) return Provenance::Constants;
    if (compat_ && info_.weight_of(*v) == nullptr) return Provenance::Data;
    return sources_.trace(*v, source);
  }
  bool is_weight(const Atom& a) const {
    TrainableSource unused;
    return origin(a, unused) == Provenance::Parameters;
  }

  bool concerns_weights(const Eqn& eqn) const {
    return std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return is_weight(a); }) ||
           contains_etp(loops::Scan(eqn).body->jaxpr);
  }

  // Why a scan cannot be traced inside; empty if it can.
  std::string blocker(const Eqn& eqn, const loops::Scan& s) const {
    if (info_.control_flow.scan_descent == ControlFlowPolicy::Descent::Off) return "scan_descent is off";
    if (s.length <= info_.control_flow.scan_unroll_limit) return "it is short enough to unroll";
    if (eqn.params.boolean_or("reverse", false)) return "it runs in reverse";
    for (const Eqn& e : s.body->jaxpr.eqns)
      if (is_control_flow(e)) return "its body holds nested control flow";
    const std::size_t first_xs = s.num_consts + s.num_carry;
    for (std::size_t i = compat_ ? first_xs : s.num_consts; i < eqn.in.size(); ++i)
      if (is_weight(eqn.in[i]))
        return i < first_xs ? "a weight is among its carries" : "a weight is among its xs";
    return {};
  }

  void visit(Eqn& eqn) {
    const loops::Scan s(eqn);
    if (const std::string why = blocker(eqn, s); !why.empty()) {
      if (s.length > info_.control_flow.scan_unroll_limit)
        skip(eqn, "a loop of " + std::to_string(s.length) + " steps is not traced inside: " + why, {},
             {{"blocker", why}, {"length", s.length}});
      return;
    }
    const std::vector<std::size_t> carries = hidden_carries(eqn, s);
    if (carries.empty()) return;
    for (const std::size_t k : carries) {
      const HiddenInfo& h = *info_.hidden_of_outvar(eqn.out[k]);
      const Var* init = as_var(eqn.in[s.num_consts + k]);
      if (init != nullptr && *init == h.invar) continue;
      skip(eqn,
           fmt::format("a loop starts from a transformed value of hidden state {} and is not traced inside",
                       to_string(h.path)),
           {h.path}, {});
      return;
    }
    descend(eqn, s, carries);
  }

  void skip(const Eqn& eqn, std::string message, std::vector<StatePath> hidden, Attr::Dict context) {
    reporter_.emit({DiagnosticKind::SCAN_DESCENT_SKIPPED,
                    DiagnosticLevel::Warning,
                    std::move(message),
                    "scan",
                    {},
                    std::move(hidden),
                    std::move(context),
                    "let the loop start from the state itself, forwards, with the weight as a constant",
                    eqn.origin});
  }

  std::vector<std::size_t> hidden_carries(const Eqn& eqn, const loops::Scan& s) const {
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < s.num_carry; ++k)
      if (info_.hidden_of_outvar(eqn.out[k]) != nullptr) out.push_back(k);
    return out;
  }

  // The body seen as a module of its own: operands that come from parameters alone are its parameters, those
  // that come from constants alone its constants.
  ModuleInfo body_info(const Eqn& eqn, const loops::Scan& s, const std::vector<std::size_t>& carries,
                       ClosedJaxpr& body) const {
    ModuleInfo inner;
    inner.control_flow = info_.control_flow;
    inner.batch_size = info_.batch_size;
    OutvarSeparator separator(body, !compat_);
    for (const std::size_t k : carries) {
      HiddenInfo h = *info_.hidden_of_outvar(eqn.out[k]);
      h.invar = body.jaxpr.invars[s.num_consts + k];
      h.outvar = separator.own(k, h.path);
      inner.add_hidden(h);
    }
    inner.closed_jaxpr = body;
    for (std::size_t i = 0; i < eqn.in.size(); ++i) {
      if (i >= s.num_consts && !compat_) break;
      TrainableSource source;
      const Provenance from = origin(eqn.in[i], source);
      if (from == Provenance::Parameters)
        inner.add_weight_leaf(source.path, body.jaxpr.invars[i], key_of(source));
      else if (from == Provenance::Constants && !compat_)
        inner.closed_jaxpr.jaxpr.constvars.push_back(body.jaxpr.invars[i]);
    }
    return inner;
  }

  // The key of the leaf that a value comes from; empty if it comes from several.
  StatePath key_of(const TrainableSource& source) const {
    if (source.leaves.size() != 1) return {};
    for (const WeightInfo& w : info_.weights)
      if (w.path == source.leaves[0].first)
        return w.leaf_keys[static_cast<std::size_t>(source.leaves[0].second)];
    return {};
  }

  // What a Var of the body stands for outside the loop; the way from parameters and constants to there is
  // added to the chain.
  Atom outside(const Var& v, const Eqn& eqn, const ClosedJaxpr& body, ProcessingChain& chain) {
    const auto& invars = body.jaxpr.invars;
    const auto at = static_cast<std::size_t>(std::find(invars.begin(), invars.end(), v) - invars.begin());
    if (at == invars.size()) {  // a constant of the body itself
      const auto& constvars = body.jaxpr.constvars;
      const auto k = std::find(constvars.begin(), constvars.end(), v) - constvars.begin();
      const Var lifted = fresh_var(v.aval);
      info_.closed_jaxpr.jaxpr.constvars.push_back(lifted);
      info_.closed_jaxpr.consts.push_back(body.consts[static_cast<std::size_t>(k)]);
      chain.add_constant(lifted);
      return lifted;
    }
    TrainableSource source;
    if (origin(eqn.in[at], source) == Provenance::Parameters && source.processing.eqns.empty())
      chain.add_leaf(std::get<Var>(eqn.in[at]), source.leaves[0]);
    else if (const Var* constant = as_var(eqn.in[at]); constant != nullptr && source.processing.eqns.empty())
      chain.add_constant(*constant);
    else
      chain.add(source);
    return eqn.in[at];
  }

  // A trainable of the body as the outer program sees it: from its leaves, through what happens before the
  // loop, to what the body makes of it.
  void rescope(TrainableSource& t, const Eqn& eqn, const ClosedJaxpr& body) {
    const bool bare = t.processing.eqns.empty();
    const auto& invars = body.jaxpr.invars;
    if (bare && std::find(invars.begin(), invars.end(), t.var) == invars.end()) return;
    ProcessingChain chain;
    Renaming names;
    if (bare) names.set(t.var, outside(t.var, eqn, body, chain));
    for (const Var& v : t.processing.invars) names.set(v, outside(v, eqn, body, chain));
    for (const Var& v : t.processing.constvars) names.set(v, outside(v, eqn, body, chain));
    splice_eqns(t.processing, names, chain.eqns);
    chain.store(names(Atom(t.var)), t);
  }

  void descend(Eqn& eqn, const loops::Scan& s, const std::vector<std::size_t>& carries) {
    ClosedJaxpr body = *s.body;
    const ModuleInfo inner = body_info(eqn, s, carries, body);
    CompileOptions options = options_;
    options.include_recurrent_mixing = false;
    options.sparse_n.reset();
    std::vector<HiddenGroup> groups = find_groups(inner, reporter_, options);
    std::vector<HiddenParamOpRelation> relations =
        find_hidden_param_op_relations_from_minfo(inner, groups, reporter_, options);
    for (HiddenParamOpRelation& r : relations)
      for (TrainableSource& t : r.trainables) rescope(t, eqn, body);
    report_missing(eqn, inner, relations);
    const ScanInfo scan = hoist(eqn, s.length, std::move(body), groups, relations);
    for (HiddenGroup& g : groups) outer_scope(g, scan);
    for (HiddenParamOpRelation& r : relations) {
      r.control_flow_context = scan;
      for (std::size_t& g : r.hidden_groups) g += found_.groups.size();
    }
    std::vector<StatePath> paths;
    for (const HiddenGroup& g : groups)
      paths.insert(paths.end(), g.hidden_paths.begin(), g.hidden_paths.end());
    std::set<std::string> weights;
    for (const HiddenParamOpRelation& r : relations) weights.insert(to_string(r.path()));
    Attr::List names;
    for (const std::string& w : weights) names.emplace_back(w);
    reporter_.emit({DiagnosticKind::SCAN_DESCENT_APPLIED,
                    DiagnosticLevel::Info,
                    fmt::format("a loop of {} steps is traced inside, step by step", s.length),
                    "scan",
                    {},
                    paths,
                    {{"length", s.length}, {"weight_paths", Attr::list(names)}},
                    {},
                    eqn.origin});
    std::move(groups.begin(), groups.end(), std::back_inserter(found_.groups));
    std::move(relations.begin(), relations.end(), std::back_inserter(found_.relations));
  }

  static bool uses(const TrainableSource& t, const StatePath& path) {
    return std::any_of(t.leaves.begin(), t.leaves.end(),
                       [&](const auto& leaf) { return leaf.first == path; });
  }

  void report_missing(const Eqn& eqn, const ModuleInfo& inner,
                      const std::vector<HiddenParamOpRelation>& relations) {
    Attr::List missing;
    std::string names;
    for (const WeightInfo& w : inner.weights) {
      const bool traced =
          std::any_of(relations.begin(), relations.end(), [&](const HiddenParamOpRelation& r) {
            return std::any_of(r.trainables.begin(), r.trainables.end(),
                               [&](const TrainableSource& t) { return uses(t, w.path); });
          });
      if (traced) continue;
      missing.emplace_back(to_string(w.path));
      names += (names.empty() ? "" : ", ") + to_string(w.path);
    }
    if (missing.empty()) return;
    reporter_.emit({DiagnosticKind::SCAN_DESCENT_NO_RELATIONS,
                    DiagnosticLevel::Warning,
                    "weights enter a loop that is traced inside but have no ETP relation there: " + names,
                    "scan",
                    {},
                    {},
                    {{"weight_paths", Attr::list(missing)}},
                    "use an ETP operator in the loop",
                    eqn.origin});
  }

  // Adds what the trace needs to the loop's stacked results.
  ScanInfo hoist(Eqn& eqn, std::int64_t length, ClosedJaxpr body, const std::vector<HiddenGroup>& groups,
                 const std::vector<HiddenParamOpRelation>& relations) {
    std::vector<Var> wanted;
    VarIds seen;
    auto want = [&](const Var& v) {
      if (seen.insert(v.id).second) wanted.push_back(v);
    };
    for (const HiddenParamOpRelation& r : relations) {
      if (r.x_var) want(*r.x_var);
      for (const Jaxpr& tail : r.y_to_hidden_group_jaxprs)
        for (const Var& v : tail.constvars) want(v);
      want(r.y_var);
    }
    for (const HiddenGroup& g : groups) {
      for (const Var& v : g.hidden_invars) want(v);
      for (const Var& v : g.transition_jaxpr.constvars) want(v);
    }
    ScanInfo scan;
    scan.length = length;
    for (const Var& v : wanted) {
      body.jaxpr.outs.emplace_back(v);
      const Var outer = fresh_var({v.aval.dtype, v.aval.shape.with_front(length)});
      eqn.out.push_back(outer);
      scan.stacked.emplace_back(v, outer);
      found_.stacked.push_back(outer);
    }
    eqn.params = eqn.params.with("jaxpr", share(std::move(body)));
    scan.eqn_id = eqn.id;
    info_.descended_scans.push_back(eqn.id);
    return scan;
  }

  // The group's states as the outer program sees them; its transition stays inside the body.
  void outer_scope(HiddenGroup& g, const ScanInfo& scan) const {
    g.descent = Descent{scan, g.hidden_invars};
    for (std::size_t i = 0; i < g.hidden_paths.size(); ++i) {
      const HiddenInfo& h = *info_.hidden_at(g.hidden_paths[i]);
      g.hidden_states[i] = h;
      g.hidden_invars[i] = h.invar;
      g.hidden_outvars[i] = h.outvar;
    }
  }

  ModuleInfo& info_;
  Reporter& reporter_;
  const CompileOptions& options_;
  bool compat_;
  ProgramIndex index_;
  SourceSearch sources_;
  DescendedScans found_;
};

}  // namespace

DescendedScans descend_scans(ModuleInfo& info, Reporter& reporter, const CompileOptions& options) {
  return Descender(info, reporter, options).run();
}

}  // namespace etrace
