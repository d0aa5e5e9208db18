// Programs of a model alone: forward passes, scores, gradients by reverse and by forward mode.
#include <fmt/format.h>

#include "core/make_program.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "learn/plan/model_steps.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"

namespace etrace {

namespace {

Aval with_time_axis(const Aval& a, std::optional<std::int64_t> steps) {
  return steps ? Aval{a.dtype, a.shape.with_front(*steps)} : a;
}

void add_slices(std::vector<Port>& ports, std::span<const Aval> slices, const SequenceForm& form) {
  for (std::size_t i = 0; i < slices.size(); ++i)
    ports.push_back({fmt::format("slice{}", i), PortRole::Slice, with_time_axis(slices[i], form.steps)});
}

ModelSteps::Scored scored(const ModelSteps& model, ArraySpan params, ArraySpan states, const StepProgram& f,
                          ArraySpan slices, const SequenceForm& form) {
  return form.steps ? model.run(params, states, f, slices, *form.steps, form.by_origin)
                    : model.step(params, states, f, slices);
}

// Losses are weighted in their own type.
Array total_of(const Array& losses, const Array& weights) {
  return sum(weights.defined() ? losses * convert(weights, losses.dtype()) : losses);
}

}  // namespace

ModelPlan::ModelPlan(const Model& m) : model_(m) {
  const ModelSteps steps(m);
  const auto start = [&](std::size_t i, std::string name, PortRole role) {
    return Start{{std::move(name), role, m.program.jaxpr.invars[i].aval}, m.inputs[i].init};
  };
  for (const std::size_t i : steps.params()) {
    const InputRecord& in = m.inputs[i];
    params_.push_back(
        start(i, to_string(ParamLeafId{in.path, in.leaf, to_string(in.leaf_key)}), PortRole::Param));
  }
  for (const std::size_t i : steps.states())
    states_.push_back(start(i, state_leaf_name(m.inputs[i]), PortRole::State));
}

std::vector<Port> ModelPlan::ports() const {
  std::vector<Port> out;
  for (const Start& p : params_) out.push_back(p.port);
  for (const Start& s : states_) out.push_back(s.port);
  return out;
}

Program ModelPlan::forward(std::optional<std::int64_t> steps) const {
  const ModelSteps model(model_);
  const std::size_t np = params_.size(), ns = states_.size();
  std::vector<Port> all = ports();
  const Avals args = argument_types(model_);
  for (std::size_t i = 0; i < args.size(); ++i)
    all.push_back({fmt::format("arg{}", i), PortRole::Arg, with_time_axis(args[i], steps)});
  return make_program("forward", std::move(all), [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, np), s = take_front(in, ns);
    const ModelSteps::Step r = steps ? model.run(p, s, in, *steps) : model.step(p, s, in);
    out.add_all("result", PortRole::Result, r.results);
    out.replace(np, r.states);
  });
}

Program ModelPlan::forward(const StepProgram& f, std::span<const Aval> slices,
                           const SequenceForm& form) const {
  const ModelSteps model(model_);
  const std::size_t np = params_.size(), ns = states_.size();
  std::vector<Port> all = ports();
  add_slices(all, slices, form);
  return make_program("score", std::move(all), [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, np), s = take_front(in, ns);
    const ModelSteps::Scored r = scored(model, p, s, f, in, form);
    out.add("losses", PortRole::Loss, r.losses);
    out.add_all("aux", PortRole::Aux, r.aux);
    out.replace(np, r.states);
  });
}

Program ModelPlan::bptt(const StepProgram& f, std::span<const Aval> slices, const SequenceForm& form) const {
  const ModelSteps model(model_);
  const std::size_t np = params_.size(), ns = states_.size();
  std::vector<Port> all = ports();
  add_slices(all, slices, form);
  if (form.weighted)
    all.push_back({"weights", PortRole::Weight, with_time_axis({Dtype::F64, {}}, form.steps)});
  return make_program("bptt", std::move(all), [&](ArraySpan given, Results& out) {
    Arrays in = to_list(given);
    if (form.by_origin)
      for (std::size_t i = 0; i < np; ++i)
        in[i] = broadcast_to(expand_dims(in[i], {0}), in[i].shape().with_front(*form.steps));
    // Σ weight·loss; everything else that the steps give follows it.
    const ClosedJaxpr total = make_jaxpr(
        [&](ArraySpan a) {
          const ArraySpan p = take_front(a, np), s = take_front(a, ns), x = take_front(a, slices.size());
          const ModelSteps::Scored r = scored(model, p, s, f, x, form);
          Arrays rest = joined({Arrays{r.losses}, r.aux, r.states});
          for (Array& each : rest) each = stop_gradient(each);
          return joined({Arrays{total_of(r.losses, form.weighted ? a[0] : Array())}, rest});
        },
        avals_of(in));
    Mask active(in.size(), false);
    for (std::size_t i = 0; i < np; ++i) active[i] = is_floating(in[i].dtype());
    const Arrays found = eval_jaxpr(value_and_grad(total, active), in);
    ArraySpan left = ArraySpan(found).subspan(1);
    out.add("losses", PortRole::Loss, take_front(left, 1)[0]);
    out.add_all("aux", PortRole::Aux, take_front(left, f.num_aux()));
    out.replace(np, take_front(left, ns));
    for (std::size_t i = 0; i < np; ++i)
      if (active[i]) out.add(params_[i].port.name, PortRole::Gradient, take_front(left, 1)[0]);
  });
}

Program ModelPlan::rtrl(const StepProgram& f, std::span<const Aval> slices, const SequenceForm& form,
                        std::size_t leaf) const {
  const ModelSteps model(model_);
  const std::size_t np = params_.size(), ns = states_.size();
  std::vector<Port> all = ports();
  add_slices(all, slices, form);
  return make_program("rtrl", std::move(all), [&](ArraySpan in, Results& out) {
    const ArraySpan params = take_front(in, np), s = take_front(in, ns);
    const Function total = [&](ArraySpan p) {
      return Arrays{total_of(scored(model, p, s, f, in, form).losses, {})};
    };
    out.add(params_[leaf].port.name, PortRole::Gradient, jacfwd(total, static_cast<int>(leaf))(params)[0]);
  });
}

}  // namespace etrace
