#include "learn/run/sample_axis.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/position_graph.h"
#include "core/flow.h"
#include "core/make_program.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/plan/model_steps.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"

namespace etrace {

namespace {

// [K, B, …] <-> [B, K, …]: samples are followed in front.
Array swapped(const Array& x) { return x.rank() > 1 ? moveaxis(x, 0, 1) : x; }
Aval swapped(const Aval& a) {
  return a.shape.rank() > 1 ? Aval{a.dtype, a.shape.without(1).with_front(a.shape[1])} : a;
}

// Whether any result but the first is computed from the input.
bool reaches_others(const Jaxpr& program, const Var& input) {
  const Reached reached = forward(program, {input.id});
  return std::any_of(program.outs.begin() + 1, program.outs.end(),
                     [&](const Atom& a) { return reached.holds(a); });
}

}  // namespace

const std::string& SampleAxis::why_not(std::size_t slice) const {
  if (known_.size() <= slice) known_.resize(slice + 1);
  if (!known_[slice]) known_[slice] = found(slice);
  return *known_[slice];
}

std::string SampleAxis::why_not(const ClosedJaxpr& program, std::span<const std::size_t> slices) const {
  for (const std::size_t i : slices)
    if (!why_not(i).empty()) return why_not(i);
  ClosedJaxpr followed = program;
  if (in_windows()) {
    Avals in;
    for (const Aval& a : program.in_avals()) in.push_back(swapped(a));
    followed = make_jaxpr(
        [&](ArraySpan x) {
          Arrays given;
          for (const Array& a : x) given.push_back(swapped(a));
          Arrays out = eval_jaxpr(program, given);
          for (Array& a : out) a = swapped(a);
          return out;
        },
        in);
  }
  std::vector<Var> sources;
  for (const std::size_t i : slices) sources.push_back(followed.jaxpr.invars[i]);
  return why_sample_values_mix(followed.jaxpr, sources, samples_);
}

std::string SampleAxis::found(std::size_t slice) const {
  ClosedJaxpr whole = whole_step();
  const std::vector<Var> in = whole.jaxpr.invars;
  const Shape& shape = in[slice].aval.shape;
  if (shape.is_scalar() || shape[0] != samples_)
    return fmt::format("a step of it has no axis of {} samples in front", samples_);
  std::vector<Var> sources{in[slice]};
  const std::vector<bool> own = states_per_sample(graph_);
  if (step_ != nullptr && !reaches_others(whole.jaxpr, in[slice]))
    whole.jaxpr.outs.resize(1);  // it is part of the loss alone
  else
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i]) sources.push_back(in[in.size() - own.size() + i]);
  return why_sample_values_mix(eliminate_dead_code(whole).jaxpr, sources, samples_);
}

// (slices…, parameters…, states…) -> (loss, states…), samples first; without a step function no loss.
ClosedJaxpr SampleAxis::whole_step() const {
  const Model& model = graph_.module_info.model;
  const ModelSteps steps(model);
  Avals in = argument_types(graph_);
  if (step_ != nullptr) {
    in = step_->program.in_avals();
    in.resize(step_->num_slices);
    for (Aval& a : in)
      if (in_windows()) a = swapped(a);
  }
  const std::size_t slices = in.size(), params = steps.params().size();
  for (const std::vector<std::size_t>* list : {&steps.params(), &steps.states()})
    for (const std::size_t i : *list) in.push_back(model.program.jaxpr.invars[i].aval);
  return make_jaxpr(
      [&](ArraySpan x) {
        Arrays given = to_list(x.first(slices));
        const ArraySpan p = x.subspan(slices, params), s = x.subspan(slices + params);
        if (step_ == nullptr) return steps.step(p, s, given).states;
        if (!in_windows()) {
          const ModelSteps::Scored one = steps.step(p, s, *step_, given);
          return joined({Arrays{one.losses}, one.states});
        }
        for (Array& a : given) a = swapped(a);
        const ModelSteps::Scored all = steps.run(p, s, *step_, given, *step_->window);
        return joined({Arrays{swapped(all.losses)}, all.states});
      },
      in);
}

}  // namespace etrace
