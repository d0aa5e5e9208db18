#include "compiler/credit.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/explain_text.h"
#include "etrace/ops/elementwise.h"
#include "io/step_outputs.h"

namespace etrace {

namespace {

// What a state does within a step: to results, and to the states that it leaves behind.
struct CarriedState {
  StatePath path;
  const HiddenGroup* group = nullptr;  // null: no hidden state
  Var entry;
  Atom exit;
  bool shown = false;           // a result of the same step depends on its old or new value
  bool live = false;            // a result of some later step depends on the value it is left with
  std::vector<bool> next = {};  // states that depend on its old or new value
};

class CreditSearch {
 public:
  explicit CreditSearch(const ETraceGraph& g) : g_(g), relations_(g.all_relations()) {
    const Model& model = g.module_info.model;
    const Jaxpr& program = g.module_info.jaxpr();
    const std::vector<std::optional<std::size_t>> renewed = state_outputs(model);
    std::size_t next = 0;
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
      if (!is_state(model.inputs[i].role)) continue;
      const std::optional<std::size_t> o = renewed[next++];
      const Var& entry = program.invars[i];
      if (is_floating(entry.aval.dtype))
        states_.push_back({model.inputs[i].path, g.hid_path_to_group(model.inputs[i].path), entry,
                           o ? program.outs[*o] : Atom(entry)});
    }
    std::vector<bool> from_old;
    for (CarriedState& s : states_) {
      const VarIds old = forward(program, {s.entry.id}, {By::Derivative}).values;
      s.live = reaches_result(old);
      VarIds both{s.entry.id};
      if (const Var* exit = as_var(s.exit)) both.insert(exit->id);
      both = forward(program, std::move(both), {By::Derivative}).values;
      s.shown = reaches_result(both);
      for (const CarriedState& other : states_) s.next.push_back(holds(both, other.exit));
    }
    for (bool more = true; more;) {
      more = false;
      for (CarriedState& s : states_)
        for (std::size_t k = 0; k < states_.size() && !s.live; ++k)
          if (s.next[k] && &states_[k] != &s && states_[k].live) s.live = more = true;
    }
  }

  std::vector<TraceWithoutSignal> operator()() const {
    std::vector<TraceWithoutSignal> out;
    for (std::size_t r = 0; r < relations_.size(); ++r) {
      if (relations_[r]->control_flow_context || is_heard(*relations_[r])) continue;
      std::vector<StatePath> through = leaves_through(*relations_[r]);
      if (!through.empty()) out.push_back({r, std::move(through)});
    }
    return out;
  }

 private:
  bool reaches_result(const VarIds& reached) const {
    const std::vector<std::size_t> results = result_outputs(g_.module_info.model);
    return std::any_of(results.begin(), results.end(),
                       [&](std::size_t o) { return holds(reached, g_.module_info.jaxpr().outs[o]); });
  }
  static bool traces(const HiddenParamOpRelation& r, const HiddenGroup* group) {
    return group != nullptr &&
           std::find(r.hidden_groups.begin(), r.hidden_groups.end(), group->index) != r.hidden_groups.end();
  }
  bool is_heard(const HiddenParamOpRelation& r) const {
    return std::any_of(states_.begin(), states_.end(),
                       [&](const CarriedState& s) { return s.shown && traces(r, s.group); });
  }
  static bool share_a_leaf(const HiddenParamOpRelation& a, const HiddenParamOpRelation& b) {
    for (const TrainableSource& s : a.trainables)
      for (const TrainableSource& t : b.trainables)
        for (const auto& leaf : s.leaves)
          if (std::find(t.leaves.begin(), t.leaves.end(), leaf) != t.leaves.end()) return true;
    return false;
  }
  std::vector<StatePath> leaves_through(const HiddenParamOpRelation& r) const {
    std::vector<StatePath> out;
    for (std::size_t k = 0; k < states_.size(); ++k) {
      const CarriedState& to = states_[k];
      const bool reached = std::any_of(states_.begin(), states_.end(), [&](const CarriedState& s) {
        return traces(r, s.group) && s.next[k];
      });
      const bool traced = std::any_of(relations_.begin(), relations_.end(), [&](const auto* other) {
        return traces(*other, to.group) && (other == &r || share_a_leaf(r, *other));
      });
      if (reached && to.live && !traced) out.push_back(to.path);
    }
    return out;
  }

  const ETraceGraph& g_;
  std::vector<const HiddenParamOpRelation*> relations_;
  std::vector<CarriedState> states_;
};

}  // namespace

std::vector<TraceWithoutSignal> traces_without_signal(const ETraceGraph& g) {
  return g.options.compat == Compat::None ? CreditSearch(g)() : std::vector<TraceWithoutSignal>();
}

void report_traces_without_signal(const ETraceGraph& g, Reporter& reporter) {
  const std::vector<const HiddenParamOpRelation*> relations = g.all_relations();
  for (const TraceWithoutSignal& found : traces_without_signal(g)) {
    const HiddenParamOpRelation& r = *relations[found.relation];
    std::vector<std::string> names, through;
    for (const TrainableSource& t : r.trainables)
      for (std::string& name : g.module_info.leaf_names(t)) names.push_back(std::move(name));
    for (const StatePath& p : found.through) through.push_back(to_string(p));
    std::vector<StatePath> states = r.connected_hidden_paths;
    states.insert(states.end(), found.through.begin(), found.through.end());
    reporter.emit(
        {DiagnosticKind::TRACE_WITHOUT_SIGNAL,
         DiagnosticLevel::Warning,
         fmt::format(
             "{} {} traced into {}; no result of the same step depends on that, and those of later "
             "steps do so through {}, where no trace of {} is kept. In single steps the traces meet no "
             "signal, and nothing is learned through time",
             join(names), names.size() == 1 ? "is" : "are", path_list(r.connected_hidden_paths),
             short_list(through, 4), names.size() == 1 ? "it" : "them"),
         std::string(r.primitive->name()),
         r.path(),
         std::move(states),
         {},
         "windows (vjp_method multi-step) that are longer than the way carry the credit; or give the states "
         "that keep it (a delay) the shape of those that are traced, so that they are one group"});
  }
}

}  // namespace etrace
