#include "compiler/scan_descent.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/guard.h"
#include "compiler/program_index.h"
#include "etrace/control.h"

namespace etrace {

namespace {

struct ScanParts {
  JaxprPtr body;
  std::size_t num_consts, num_carry;
  std::int64_t length;
  explicit ScanParts(const Eqn& eqn)
      : body(eqn.params.jaxpr("jaxpr")),
        num_consts(static_cast<std::size_t>(eqn.params.integer("num_consts"))),
        num_carry(static_cast<std::size_t>(eqn.params.integer("num_carry"))),
        length(eqn.params.integer("length")) {}
};

bool concerns_weights(const Eqn& eqn, const ModuleInfo& info) {
  for (const Atom& a : eqn.in)
    if (const Var* v = as_var(a); v != nullptr && info.weight_of(*v) != nullptr) return true;
  return contains_etp(eqn.params.jaxpr("jaxpr")->jaxpr);
}

// Why a scan cannot be traced inside; empty if it can.
std::string blocker(const Eqn& eqn, const ScanParts& s, const ModuleInfo& info) {
  if (info.control_flow.scan_descent == ControlFlowPolicy::Descent::Off) return "scan_descent is off";
  if (s.length <= info.control_flow.scan_unroll_limit) return "it is short enough to unroll";
  if (eqn.params.boolean_or("reverse", false)) return "it runs in reverse";
  for (const Eqn& e : s.body->jaxpr.eqns)
    if (is_control_flow(e)) return "its body holds nested control flow";
  for (std::size_t i = s.num_consts + s.num_carry; i < eqn.in.size(); ++i)
    if (const Var* v = as_var(eqn.in[i]); v != nullptr && info.weight_of(*v) != nullptr)
      return "a weight is among its xs";
  return {};
}

class Descender {
 public:
  Descender(ModuleInfo& info, Reporter& reporter, const CompileOptions& options)
      : info_(info), reporter_(reporter), options_(options) {}

  DescendedScans run() {
    for (Eqn& eqn : info_.closed_jaxpr.jaxpr.eqns)
      if (eqn.prim == &scan_p && concerns_weights(eqn, info_)) visit(eqn);
    return std::move(found_);
  }

 private:
  void visit(Eqn& eqn) {
    const ScanParts s(eqn);
    if (const std::string why = blocker(eqn, s, info_); !why.empty()) {
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

  std::vector<std::size_t> hidden_carries(const Eqn& eqn, const ScanParts& s) const {
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < s.num_carry; ++k)
      if (info_.hidden_of_outvar(eqn.out[k]) != nullptr) out.push_back(k);
    return out;
  }

  // The body seen as a module of its own.
  ModuleInfo body_info(const Eqn& eqn, const ScanParts& s, const std::vector<std::size_t>& carries) const {
    ModuleInfo inner;
    inner.closed_jaxpr = *s.body;
    inner.control_flow = info_.control_flow;
    for (const std::size_t k : carries) {
      HiddenInfo h = *info_.hidden_of_outvar(eqn.out[k]);
      h.invar = s.body->jaxpr.invars[s.num_consts + k];
      h.outvar = std::get<Var>(s.body->jaxpr.outs[k]);
      inner.add_hidden(h);
    }
    for (std::size_t i = 0; i < eqn.in.size(); ++i) {
      const Var* v = as_var(eqn.in[i]);
      const WeightInfo* w = v != nullptr ? info_.weight_of(*v) : nullptr;
      if (w == nullptr) continue;
      // Leaves keep their positions within the parameter.
      const auto leaf =
          static_cast<std::size_t>(std::find(w->invars.begin(), w->invars.end(), *v) - w->invars.begin());
      inner.add_weight_leaf(w->path, s.body->jaxpr.invars[i], w->leaf_keys[leaf]);
      leaf_of_.insert_or_assign(s.body->jaxpr.invars[i].id, static_cast<std::int64_t>(leaf));
    }
    return inner;
  }

  void descend(Eqn& eqn, const ScanParts& s, const std::vector<std::size_t>& carries) {
    const ModuleInfo inner = body_info(eqn, s, carries);
    CompileOptions options = options_;
    options.include_recurrent_mixing = false;
    options.sparse_n.reset();
    std::vector<HiddenGroup> groups = find_hidden_groups_from_minfo(inner, reporter_, options);
    std::vector<HiddenParamOpRelation> relations =
        find_hidden_param_op_relations_from_minfo(inner, groups, reporter_, options);
    for (HiddenParamOpRelation& r : relations)
      for (TrainableSource& t : r.trainables)
        if (const auto it = leaf_of_.find(t.var.id); it != leaf_of_.end()) {
          t.leaf = it->second;
          t.leaves = {{t.path, t.leaf}};
        }
    report_missing(eqn, inner, relations);
    const ScanInfo scan = hoist(eqn, s, groups, relations);
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

  void report_missing(const Eqn& eqn, const ModuleInfo& inner,
                      const std::vector<HiddenParamOpRelation>& relations) {
    Attr::List missing;
    std::string names;
    for (const WeightInfo& w : inner.weights) {
      const bool traced =
          std::any_of(relations.begin(), relations.end(), [&](const HiddenParamOpRelation& r) {
            return std::any_of(r.trainables.begin(), r.trainables.end(),
                               [&](const TrainableSource& t) { return t.path == w.path; });
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
  ScanInfo hoist(Eqn& eqn, const ScanParts& s, const std::vector<HiddenGroup>& groups,
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
    ClosedJaxpr body = *s.body;
    ScanInfo scan;
    scan.length = s.length;
    for (const Var& v : wanted) {
      body.jaxpr.outs.emplace_back(v);
      const Var outer = fresh_var({v.aval.dtype, v.aval.shape.with_front(s.length)});
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
  DescendedScans found_;
  mutable std::unordered_map<std::uint64_t, std::int64_t>
      leaf_of_;  // body Var of a leaf -> its index in the parameter
};

}  // namespace

DescendedScans descend_scans(ModuleInfo& info, Reporter& reporter, const CompileOptions& options) {
  return Descender(info, reporter, options).run();
}

}  // namespace etrace
