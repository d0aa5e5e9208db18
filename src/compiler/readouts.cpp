#include "compiler/readouts.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/mixing.h"
#include "compiler/program_index.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/numpy.h"

namespace etrace {

namespace {

VarIds states_of(const HiddenGroup& g) {
  VarIds out;
  for (const std::vector<Var>* vars : {&g.hidden_invars, &g.hidden_outvars})
    for (const Var& v : *vars) out.insert(v.id);
  return out;
}

class ReadoutSearch {
 public:
  explicit ReadoutSearch(const ETraceGraph& g) : g_(g), program_(g.module_info.jaxpr()) {
    VarIds parameters, data;
    const std::vector<InputRecord>& inputs = g.module_info.model.inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      (inputs[i].role == Role::Param ? parameters : data).insert(program_.invars[i].id);
    from_parameters_ = forward(program_, std::move(parameters), {By::Value}).values;
    from_data_ = forward(program_, std::move(data), {By::Value}).values;
  }

  std::optional<LeakyReadout> operator()(const HiddenGroup& group) const {
    if (group.descent || !group.is_diagonal_recurrence || !group.dropped.empty()) return std::nullopt;
    if (!is_fed(group) || !feeds_results_alone(group)) return std::nullopt;
    return kept(group);
  }

 private:
  bool is_fed(const HiddenGroup& group) const {
    for (const HiddenGroup& other : g_.hidden_groups) {
      if (other.index == group.index) continue;
      const VarIds reached = forward(program_, states_of(other), {By::Derivative}).values;
      for (const Var& v : group.hidden_outvars)
        if (reached.contains(v.id)) return true;
    }
    return false;
  }

  bool feeds_results_alone(const HiddenGroup& group) const {
    const VarIds reached = forward(program_, states_of(group), {By::Derivative}).values;
    for (const Eqn& eqn : program_.eqns)
      if (is_weighted(eqn) &&
          std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return holds(reached, a); }))
        return false;
    bool read = false;
    const std::vector<OutputRecord>& outputs = g_.module_info.model.outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!holds(reached, program_.outs[i])) continue;
      const bool own = std::find(group.hidden_paths.begin(), group.hidden_paths.end(), outputs[i].path) !=
                       group.hidden_paths.end();
      if (outputs[i].role != Role::Out && !own) return false;
      read = read || outputs[i].role == Role::Out;
    }
    return read;
  }

  // A trainable operator, or a product with something that comes from parameters.
  bool is_weighted(const Eqn& eqn) const {
    if (is_etp(*eqn.prim)) return true;
    const bool multiplies = eqn.prim->spec.product || !nested_jaxprs(eqn).empty();
    return multiplies && std::any_of(eqn.in.begin(), eqn.in.end(),
                                     [&](const Atom& a) { return holds(from_parameters_, a); });
  }

  // What the group keeps of itself, from the derivative of its transition as a program.
  std::optional<LeakyReadout> kept(const HiddenGroup& group) const {
    Avals in;
    for (const Var& v : group.hidden_invars) in.push_back(v.aval);
    for (const Var& v : group.transition_jaxpr.constvars) in.push_back(v.aval);
    const std::size_t states = group.hidden_invars.size();
    const Recording found = record(
        in, [&](ArraySpan a) { return Arrays{group.diagonal_jacobian(a.first(states), a.subspan(states))}; });
    bool parameters = false;
    Arrays values;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool used =
          holds(forward(found.jaxpr, {found.jaxpr.invars[i].id}, {By::Value}).values, found.jaxpr.outs[0]);
      const Var* source = i < states ? nullptr : &group.transition_jaxpr.constvars[i - states];
      if (used && (source == nullptr || from_data_.contains(source->id))) return std::nullopt;
      parameters = parameters || (used && from_parameters_.contains(source->id));
      values.push_back(used && !parameters ? constant(*source) : zeros_of(in[i]));
    }
    LeakyReadout out{group.index, std::nullopt, {}};
    if (group.num_state() > 1)
      out.unknown = fmt::format("it has {} states per unit", group.num_state());
    else if (parameters)
      out.unknown = "its decay depends on parameters";
    else
      set_decay(out, eval_jaxpr(found.jaxpr, found.captured, values)[0].tensor().to_doubles());
    return out;
  }

  static void set_decay(LeakyReadout& out, const std::vector<double>& kept) {
    const auto [least, most] = std::minmax_element(kept.begin(), kept.end());
    if (kept.empty() || *least != *most)
      out.unknown = "its units decay differently";
    else if (!(*most > 0.0 && *most < 1.0))
      out.unknown = fmt::format("what it keeps of itself is {}, which is no decay", *most);
    else
      out.decay = *most;
  }

  // A value that depends on constants alone.
  Array constant(const Var& v) const {
    const ClosedJaxpr& closed = g_.module_info.closed_jaxpr;
    for (std::size_t i = 0; i < closed.consts.size(); ++i)
      if (program_.constvars[i] == v) return closed.consts[i];
    for (const Eqn& eqn : program_.eqns)
      for (std::size_t k = 0; k < eqn.out.size(); ++k) {
        if (eqn.out[k] != v) continue;
        Arrays in;
        for (const Atom& a : eqn.in)
          in.push_back(as_var(a) != nullptr
                           ? constant(*as_var(a))
                           : full({}, std::get<Literal>(a).value, std::get<Literal>(a).dtype));
        return bind_primitive(*eqn.prim, in, eqn.params)[k];
      }
    throw InternalError("readouts", "a constant that nothing makes");
  }

  const ETraceGraph& g_;
  const Jaxpr& program_;
  VarIds from_parameters_, from_data_;  // data: arguments and states
};

}  // namespace

std::vector<LeakyReadout> leaky_readouts(const ETraceGraph& g) {
  if (g.hidden_groups.size() < 2) return {};
  const ReadoutSearch search(g);
  std::vector<LeakyReadout> out;
  for (const HiddenGroup& group : g.hidden_groups)
    if (auto found = search(group)) out.push_back(std::move(*found));
  return out;
}

std::vector<bool> groups_that_feed(const ETraceGraph& g, const std::vector<std::size_t>& groups) {
  std::vector<bool> out(g.hidden_groups.size(), false);
  for (const HiddenGroup& from : g.hidden_groups) {
    const VarIds reached = forward(g.module_info.jaxpr(), states_of(from), {By::Derivative}).values;
    for (const std::size_t to : groups)
      for (const Var& v : g.hidden_groups[to].hidden_outvars)
        if (reached.contains(v.id)) out[from.index] = true;
  }
  return out;
}

}  // namespace etrace
