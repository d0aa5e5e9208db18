// Programs that fit a rule's estimate of what comes after a window: one step of a regression towards the
// gradient that the window and the estimate at its end give for the states at its entry.
#include <fmt/format.h>

#include "core/make_program.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/plan/model_steps.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "optim/slots.h"

namespace etrace {

namespace {

class Fit {
 public:
  Fit(const ETraceGraph& g, const BoundRule& rule, const StepProgram& step, const optim::Optimizer& optimizer)
      : g_(g),
        rule_(rule),
        model_(g.module_info.model),
        step_(step),
        optimizer_(optimizer),
        slots_(rule.slots()),
        paths_(state_paths(g)) {
    const ModelPlan plan(g.module_info.model);
    for (const auto* list : {&plan.params(), &plan.states()})
      for (const ModelPlan::Start& s : *list) ports_.push_back(s.port);
    np_ = plan.params().size();
    ns_ = plan.states().size();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].role != PortRole::RuleParam) continue;
      fitted_.push_back(i);
      own_ports_.push_back({slots_[i].name, slots_[i].role, slots_[i].aval});
      leaves_.push_back({{slots_[i].name}, 0, ""});
    }
  }

  // (params, states, parameters of the rule, slots, hyperparameters, age)
  struct Given {
    ArraySpan params, states, own, slots, rates;
    Array age;
  };
  std::vector<Port> ports() const {
    const optim::OptimizerPorts optimizer = optimizer_ports();
    std::vector<Port> out = joined_ports({ports_, own_ports_, optimizer.slots, optimizer.hyper});
    out.push_back({"age", PortRole::Counter, {Dtype::I32, {}}});
    return out;
  }
  Given take(ArraySpan& in) const {
    const optim::OptimizerPorts optimizer = optimizer_ports();
    const ArraySpan p = take_front(in, np_), s = take_front(in, ns_), o = take_front(in, own_ports_.size()),
                    z = take_front(in, optimizer.slots.size()), h = take_front(in, optimizer.hyper.size());
    return {p, s, o, z, h, take_front(in, 1)[0]};
  }

  void window(const Given& g, ArraySpan slices, Results& out) const {
    const Arrays in = joined({g.states, g.params, slices, g.own, Arrays{g.age}});
    const ClosedJaxpr total = make_jaxpr(
        [&](ArraySpan a) {
          const ArraySpan s = take_front(a, ns_), p = take_front(a, np_), x = take_front(a, slices.size()),
                          o = take_front(a, own_ports_.size());
          const ModelSteps::Scored ran = model_.run(p, s, step_, x, *step_.window);
          Array all = sum(ran.losses);
          const Arrays exit = slabs(ran.states), later = estimates(p, o, exit, a[0]);
          for (std::size_t k = 0; k < exit.size(); ++k)
            all = all + convert(sum(exit[k] * stop_gradient(later[k])), all.dtype());
          return joined({Arrays{all}, ran.states});
        },
        avals_of(in));
    Mask active(in.size(), false);
    for (std::size_t i = 0; i < ns_; ++i) active[i] = is_floating(g.states[i].dtype());
    const Arrays found = eval_jaxpr(value_and_grad(total, active), in);  // loss, states, cotangents
    Arrays to_entry;
    std::size_t next = 1 + ns_;
    for (std::size_t i = 0; i < ns_; ++i)
      to_entry.push_back(active[i] ? found[next++] : zeros_like(g.states[i]));
    regress(g, slabs(to_entry), out);
    out.replace(np_, ArraySpan(found).subspan(1, ns_));
    out.replace(out.arguments.size() - slices.size() - 1, Arrays{g.age + steps()});
  }

  // The same at the end of the sequence: nothing comes later.
  void end(const Given& g, Results& out) const {
    Arrays targets;
    for (const Array& a : slabs(g.states)) targets.push_back(zeros_like(a));
    regress(g, targets, out);
  }

 private:
  optim::OptimizerPorts optimizer_ports() const { return {optimizer_, leaves_, own_ports_}; }
  Array steps() const { return Tensor::full({Dtype::I32, {}}, *step_.window); }

  // One value per state -> one per group [*varshape, S].
  Arrays slabs(ArraySpan states) const {
    Arrays out;
    for (const HiddenGroup& group : g_.hidden_groups) {
      Arrays members;
      for (const HiddenInfo& h : group.hidden_states)
        for (std::size_t i = 0; i < paths_.size(); ++i)
          if (paths_[i] == h.path) members.push_back(states[i]);
      out.push_back(group.concat_hidden(members));
    }
    return out;
  }

  Arrays estimates(ArraySpan params, ArraySpan own, ArraySpan hidden, const Array& age) const {
    Arrays memory;
    for (const TraceSlot& s : slots_) memory.push_back(zeros_of(s.aval));
    for (std::size_t i = 0; i < fitted_.size(); ++i) memory[fitted_[i]] = own[i];
    WindowData w;
    w.steps = *step_.window;
    w.params = to_list(params);
    w.age = age;
    w.calls = age;
    return rule_.exit_estimate(w, memory, hidden);
  }

  // One step towards the targets, from the states at the entry.
  void regress(const Given& g, ArraySpan targets, Results& out) const {
    const Arrays at = slabs(g.states);
    const ScalarFunction error = [&](ArraySpan p) {
      const Arrays found = estimates(g.params, p, at, g.age - steps());
      Array total;
      for (std::size_t k = 0; k < found.size(); ++k) {
        const Array one = mean(square(found[k] - targets[k]));
        total = total.defined() ? total + convert(one, total.dtype()) : one;
      }
      return total;
    };
    std::vector<int> all;
    for (std::size_t i = 0; i < g.own.size(); ++i) all.push_back(static_cast<int>(i));
    const Arrays found = value_and_grad(error, all)(g.own);
    const optim::Updated next =
        optimizer_.apply(g.own, ArraySpan(found).subspan(1), g.slots, leaves_, g.rates);
    out.add("error", PortRole::Loss, found[0]);
    out.replace(np_ + ns_, joined({next.params, next.state}));
  }

  const ETraceGraph& g_;
  const BoundRule& rule_;
  ModelSteps model_;
  const StepProgram& step_;
  const optim::Optimizer& optimizer_;
  std::vector<TraceSlot> slots_;
  std::vector<std::size_t> fitted_;  // which of them are the rule's own parameters
  std::vector<ParamLeafId> leaves_;  // their names
  std::vector<Port> ports_, own_ports_;
  std::size_t np_ = 0, ns_ = 0;
  std::vector<StatePath> paths_;  // of the states, in the order of the program's inputs
};

}  // namespace

Program PlanBuilder::fit(const StepProgram& objective, std::span<const Aval> slices,
                         const optim::Optimizer& optimizer) const {
  const Fit fit(graph(), rule(), objective, optimizer);
  std::vector<Port> ports = fit.ports();
  for (std::size_t i = 0; i < slices.size(); ++i)
    ports.push_back({fmt::format("slice{}", i),
                     PortRole::Slice,
                     {slices[i].dtype, slices[i].shape.with_front(*objective.window)}});
  return make_program("fit", ports, [&](ArraySpan in, Results& out) {
    const Fit::Given given = fit.take(in);
    fit.window(given, in, out);
  });
}

Program PlanBuilder::fit_end(const StepProgram& objective, const optim::Optimizer& optimizer) const {
  const Fit fit(graph(), rule(), objective, optimizer);
  return make_program("fit_end", fit.ports(),
                      [&](ArraySpan in, Results& out) { fit.end(fit.take(in), out); });
}

}  // namespace etrace
