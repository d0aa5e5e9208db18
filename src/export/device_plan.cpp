#include "export/device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "emit/expand.h"
#include "etrace/error.h"
#include "etrace/trace_passes.h"
#include "learn/plan/finite_guard.h"
#include "learn/run/label_check.h"
#include "learn/traces/interface.h"

namespace etrace::device {

namespace {

bool is_carried(PortRole role) {
  switch (role) {
    case PortRole::Param:
    case PortRole::State:
    case PortRole::Trace:
    case PortRole::RuleParam:
    case PortRole::Counter:
    case PortRole::OptimizerSlot:
    case PortRole::Hyperparameter:
    case PortRole::Signal:
      return true;
    default:
      return false;
  }
}

// Of everything that is carried, by role and name: as the learner and the optimiser hold it.
class Values {
 public:
  Values(const Learner& learner, const optim::Optimizer& optimizer, const Tensor& modulator)
      : file_(learner.checkpoint()), modulator_(modulator) {
    const ParamValues params = learner.params();
    const std::vector<std::string> names = optimizer.state_names(params.leaves);
    if (optimizer.bound()) {
      for (auto& [name, value] : optimizer.state()) slots_.emplace_back("optimizer/" + name, value);
    } else {
      const Arrays state = optimizer.init(params.values, params.leaves);
      for (std::size_t i = 0; i < state.size(); ++i)
        slots_.emplace_back("optimizer/" + names[i], state[i].tensor());
    }
    const std::int64_t updates = optimizer.bound() ? optimizer.step() : 0;
    const std::vector<std::string> rates = optimizer.hyperparameter_names(params.leaves);
    const std::vector<double> numbers = optimizer.hyperparameters(updates);
    for (std::size_t i = 0; i < rates.size(); ++i)
      slots_.emplace_back(fmt::format("{}/{}", optimizer.name(), rates[i]),
                          Tensor::full({Dtype::F64, {}}, numbers[i]));
  }

  Tensor at(const Port& p) const {
    const Tensor found = look_up(p);
    if (found.aval() == p.aval) return found;
    throw ValueError("export", fmt::format("{} {} has type {}, but the program takes {}", name(p.role),
                                           p.name, to_string(found.aval()), to_string(p.aval)));
  }

 private:
  Tensor look_up(const Port& p) const {
    switch (p.role) {
      case PortRole::Param:
        return find(file_.tensors, "param/" + p.name, p);
      case PortRole::State:
        return find(file_.tensors, "state/" + p.name, p);
      case PortRole::Signal:
        return modulator_;
      case PortRole::OptimizerSlot:
      case PortRole::Hyperparameter:
        return find(slots_, p.name, p);
      default:
        return find(file_.tensors, "memory/" + p.name, p);
    }
  }
  static Tensor find(const NamedTensors& list, const std::string& name, const Port& p) {
    for (const auto& [key, value] : list)
      if (key == name) return value;
    throw ValueError(
        "export", fmt::format("neither learner nor optimiser holds the {} {}", etrace::name(p.role), p.name));
  }
  const TensorFile file_;
  const Tensor modulator_;
  NamedTensors slots_;
};

// Whether the program gives an argument back as it came.
bool writes(const Program& p, std::size_t argument) {
  for (const Alias& a : p.aliases) {
    if (a.argument != argument) continue;
    const Var* out = as_var(p.jaxpr.jaxpr.outs[a.result]);
    return out == nullptr || *out != p.jaxpr.jaxpr.invars[argument];
  }
  return false;
}

void for_each_inside(const ClosedJaxpr& program, const std::function<void(const Eqn&)>& f) {
  for (const Eqn& eqn : program.jaxpr.eqns) {
    f(eqn);
    for (const JaxprPtr& body : nested_jaxprs(eqn)) for_each_inside(*body, f);
  }
}

}  // namespace

std::vector<TracePass> DevicePlan::without_code() const {
  std::vector<TracePass> out;
  for (const Program* p : {&learn, &evolve})
    for_each_inside(p->jaxpr, [&](const Eqn& eqn) {
      if (is_trace_pass(eqn) && !emit::has_bits_of_kernel(eqn)) out.push_back(trace_pass_of(eqn));
    });
  return out;
}

void DevicePlan::require_code() const {
  for (const TracePass& t : without_code())
    throw NotSupportedError(
        "export",
        fmt::format("the trace {} is passed in the form {} ({}), whose sums have no code for devices; the "
                    "form rows has: LearnerOptions::trace_passes, --trace-pass {}=rows",
                    t.trace, name(t.form), t.reason, t.trace));
  for (const Program* p : {&learn, &evolve})
    for_each_inside(p->jaxpr, [](const Eqn& eqn) {
      if (!emit::has_bits_of_kernel(eqn) && !is_trace_pass(eqn))
        throw NotSupportedError("export", fmt::format("{} of {} is summed in pieces, which has no code for "
                                                      "devices; make the model smaller",
                                                      eqn.prim->name(), to_string(aval_of(eqn.in[0]))));
    });
}

const Carried* DevicePlan::find(const Port& p) const {
  for (const Carried& c : carried)
    if (c.port.role == p.role && c.port.name == p.name) return &c;
  return nullptr;
}

DevicePlan plan_device(const Learner& learner, const Loss& loss, const optim::Optimizer& optimizer,
                       const Aval& target) {
  const LearningRule& rule = learner.rule();
  const LearnerOptions& options = learner.options();
  const PlanBuilder builder(learner.graph(), rule, options.vjp_method);
  DevicePlan out;
  out.inputs = argument_types(learner.graph());
  out.outputs = result_types(learner.graph());
  out.target = target;
  Avals slices = out.inputs;
  slices.push_back(target);
  const std::size_t num_inputs = out.inputs.size();
  const StepFunction f = [&](StepCall& model, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(num_inputs));
    const Arrays y = model(args);
    return LossAndAux{loss(y, s.back()), y};
  };
  WindowForm form;
  Tensor modulator;
  if (rule.takes_modulator()) {
    const Array standing = standing_modulator(learner.graph(), rule);
    if (!standing.defined())
      throw ValueError("export", fmt::format("{} needs a modulator: give the rule one, which the device may "
                                             "change",
                                             rule.name()));
    modulator = standing.tensor();
    form.modulator = modulator.aval();
  }
  const StepProgram objective = builder.objective(f, slices);
  const auto labels = LabelCheck(objective).slices();
  if (!labels)
    throw NotSupportedError("export",
                            "the loss computes its labels from data, so that a device could not refuse those "
                            "that name no class; give it the labels themselves");
  for (const LabelCheck::Slice& s : *labels) out.labels.push_back({s.slice, s.classes});
  const auto ready = [&](Program p) {
    return keep_buffers(with_trace_passes(lean(std::move(p)), options.trace_passes));
  };
  out.evolve = ready(builder.evolve({}));
  out.learn = ready(builder.train(objective, slices, form, optimizer));

  const Values values(learner, optimizer, modulator);
  for (const Program* p : {&out.learn, &out.evolve})
    for (std::size_t i = 0; i < p->arguments.size(); ++i) {
      const Port& port = p->arguments[i];
      if (!is_carried(port.role)) continue;
      auto known = std::find_if(out.carried.begin(), out.carried.end(), [&](const Carried& c) {
        return c.port.role == port.role && c.port.name == port.name;
      });
      if (known == out.carried.end()) known = out.carried.insert(known, {port, values.at(port), true});
      const bool set_by_device = port.role == PortRole::Hyperparameter || port.role == PortRole::Signal;
      known->constant = known->constant && !set_by_device && !writes(*p, i);
    }
  return out;
}

}  // namespace etrace::device
