// Pass 4: h = f(…) becomes ĥ = f(…), h = ĥ + p. Every reader of h in the same step sees the perturbed value,
// so that the derivative of a loss with respect to p (at 0) is its derivative with respect to h.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/guard.h"
#include "compiler/program_index.h"
#include "control/loops.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

namespace {

class Perturber {
 public:
  Perturber(const ModuleInfo& info, Reporter& reporter, bool compat)
      : info_(info), reporter_(reporter), compat_(compat) {}

  HiddenPerturbation run() {
    HiddenPerturbation& p = result_;
    p.perturb_jaxpr = {{info_.jaxpr().constvars, info_.jaxpr().invars, {}, info_.jaxpr().outs},
                       info_.closed_jaxpr.consts};
    for (const HiddenInfo& h : info_.hidden) {
      if (var_of_.contains(h.outvar.id)) continue;  // aliased states share one
      const Var v = fresh_var(h.outvar.aval);
      var_of_.emplace(h.outvar.id, v);
      p.perturb_vars.push_back(v);
      const HiddenInfo& owner = *info_.hidden_of_outvar(h.outvar);
      p.perturb_hidden_paths.push_back(owner.path);
      p.perturb_hidden_states.push_back(owner);
      p.perturb_jaxpr.jaxpr.invars.push_back(v);
    }
    for (const Eqn& eqn : info_.jaxpr().eqns) perturb(eqn);
    perturb_unproduced();
    return std::move(result_);
  }

 private:
  std::vector<Eqn>& eqns() { return result_.perturb_jaxpr.jaxpr.eqns; }

  void perturb(const Eqn& eqn) {
    guard_control_flow(eqn, info_, reporter_);
    Eqn copy = eqn;
    std::vector<Eqn> additions;
    for (Var& v : copy.out) {
      const auto it = var_of_.find(v.id);
      if (it == var_of_.end()) continue;
      const Var bare = fresh_var(v.aval);
      additions.push_back(make_eqn(add_p, {bare, it->second}, {v}, {}, eqn.origin));
      produced_.insert(v.id);
      v = bare;
    }
    if (compat_ && !additions.empty() && is_while(eqn)) detach_inputs(copy);
    eqns().push_back(std::move(copy));
    for (Eqn& a : additions) eqns().push_back(std::move(a));
  }

  // The reference has no reverse rule for while, so it cuts what leads into the loop.
  void detach_inputs(Eqn& loop) {
    std::size_t count = 0;
    for (Atom& a : loop.in)
      if (const Var* v = as_var(a)) {
        const Var detached = fresh_var(v->aval);
        eqns().push_back(make_eqn(stop_gradient_p, {*v}, {detached}, {}, loop.origin));
        a = detached;
        ++count;
      }
    reporter_.emit({DiagnosticKind::CONTROL_FLOW_OPAQUE_FWD,
                    DiagnosticLevel::Warning,
                    "the inputs of a while loop that produces a hidden state are detached: no learning "
                    "signal passes back through it",
                    "while",
                    {},
                    {},
                    {{"site", "perturbation"}, {"n_detached", count}},
                    {},
                    loop.origin});
  }

  // A state that is read but not written: only what leaves the step is perturbed.
  void perturb_unproduced() {
    for (const auto& h : result_.perturb_hidden_states) {
      if (produced_.contains(h.outvar.id)) continue;
      const Var moved = fresh_var(h.outvar.aval);
      eqns().push_back(make_eqn(add_p, {h.outvar, var_of_.at(h.outvar.id)}, {moved}));
      for (Atom& a : result_.perturb_jaxpr.jaxpr.outs)
        if (const Var* v = as_var(a); v != nullptr && *v == h.outvar) a = moved;
    }
  }

  const ModuleInfo& info_;
  Reporter& reporter_;
  bool compat_;
  HiddenPerturbation result_;
  std::unordered_map<std::uint64_t, Var> var_of_;
  VarIds produced_;
};

}  // namespace

HiddenPerturbation add_hidden_perturbation_from_minfo(const ModuleInfo& info, Reporter& reporter,
                                                      const CompileOptions& options) {
  return Perturber(info, reporter, options.compat == Compat::Braintrace).run();
}

Arrays HiddenPerturbation::init_perturb_data() const {
  Arrays out;
  for (const Var& v : perturb_vars) out.push_back(zeros_of(v.aval));
  return out;
}

Arrays HiddenPerturbation::eval_jaxpr(ArraySpan inputs, ArraySpan perturb_data) const {
  Arrays all(inputs.begin(), inputs.end());
  all.insert(all.end(), perturb_data.begin(), perturb_data.end());
  return etrace::eval_jaxpr(perturb_jaxpr, all);
}

Arrays HiddenPerturbation::perturb_data_to_hidden_group_data(ArraySpan data,
                                                             const std::vector<HiddenGroup>& groups) const {
  if (data.size() != perturb_vars.size())
    throw ValueError("perturbation", fmt::format("{} perturbations were given, there are {}", data.size(),
                                                 perturb_vars.size()));
  Arrays out;
  for (const HiddenGroup& g : groups) {
    Arrays members;
    for (const StatePath& path : g.hidden_paths) {
      const auto it = std::find(perturb_hidden_paths.begin(), perturb_hidden_paths.end(), path);
      if (it == perturb_hidden_paths.end())
        throw ValueError("perturbation", "hidden state " + to_string(path) + " of group " +
                                             std::to_string(g.index) + " is not perturbed");
      members.push_back(data[static_cast<std::size_t>(it - perturb_hidden_paths.begin())]);
    }
    out.push_back(g.concat_hidden(members));
  }
  return out;
}

}  // namespace etrace
