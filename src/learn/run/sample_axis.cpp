#include "learn/run/sample_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "compiler/position_graph.h"
#include "core/make_program.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/traces/interface.h"

namespace etrace {

const std::string& SampleAxis::why_not(std::size_t slice) const {
  if (known_.size() <= slice) known_.resize(slice + 1);
  if (!known_[slice]) known_[slice] = found(slice);
  return *known_[slice];
}

std::string SampleAxis::found(std::size_t slice) const {
  ClosedJaxpr whole = whole_step();
  const std::vector<Var> in = whole.jaxpr.invars;
  const Shape& shape = in[slice].aval.shape;
  if (shape.is_scalar() || shape[0] != samples_)
    return fmt::format("a step of it has no axis of {} samples in front", samples_);
  std::vector<Var> sources{in[slice]};
  if (step_ != nullptr && !reaches_states(whole.jaxpr, in[slice]))
    whole.jaxpr.outs.resize(1);  // it is part of the loss alone
  else
    for (const std::size_t i : own_states(in.size())) sources.push_back(in[i]);
  return why_sample_values_mix(eliminate_dead_code(whole).jaxpr, sources, samples_);
}

// What is computed from the slice, of all results but the loss.
bool SampleAxis::reaches_states(const Jaxpr& whole, const Var& slice) {
  std::unordered_set<std::uint64_t> reached{slice.id};
  const auto is_reached = [&](const Atom& a) {
    return as_var(a) != nullptr && reached.contains(as_var(a)->id);
  };
  for (const Eqn& eqn : whole.eqns)
    if (std::any_of(eqn.in.begin(), eqn.in.end(), is_reached))
      for (const Var& v : eqn.out) reached.insert(v.id);
  return std::any_of(whole.outs.begin() + 1, whole.outs.end(), is_reached);
}

// Places of the states that have an entry per sample among the inputs of a whole step.
std::vector<std::size_t> SampleAxis::own_states(std::size_t num_inputs) const {
  const std::vector<InputRecord>& records = graph_.module_info.model.inputs;
  const auto is_other = [](const InputRecord& r) { return r.role != Role::Arg; };
  const std::vector<bool> own = states_per_sample(graph_);
  std::vector<std::size_t> out;
  std::size_t state = 0;
  std::size_t at =
      num_inputs - static_cast<std::size_t>(std::count_if(records.begin(), records.end(), is_other));
  for (const InputRecord& r : records) {
    if (is_state(r.role) && own[state++]) out.push_back(at);
    if (is_other(r)) ++at;
  }
  return out;
}

namespace {

// [K, B, …] <-> [B, K, …]
Array swapped(const Array& x) { return x.rank() > 1 ? moveaxis(x, 0, 1) : x; }
Aval swapped(const Aval& a) {
  return a.shape.rank() > 1 ? Aval{a.dtype, a.shape.without(1).with_front(a.shape[1])} : a;
}

// The model's program, for arguments and states.
class Steps {
 public:
  Steps(const Model& model, Arrays others) : model_(model), others_(std::move(others)) {}

  Arrays operator()(ArraySpan args) {
    Arrays in;
    std::size_t other = 0;
    for (const InputRecord& r : model_.inputs)
      in.push_back(r.role == Role::Arg ? args[static_cast<std::size_t>(r.index)] : others_[other++]);
    const Arrays found = eval_jaxpr(model_.program, in);
    Arrays results;
    for (const std::size_t o : result_outputs(model_)) results.push_back(found[o]);
    other = 0;
    for (const InputRecord& r : model_.inputs) {
      if (r.role == Role::Arg) continue;
      for (std::size_t o = 0; is_state(r.role) && o < found.size(); ++o) {
        const OutputRecord& out = model_.outputs[o];
        if (out.role == r.role && out.path == r.path && out.leaf == r.leaf) others_[other] = found[o];
      }
      ++other;
    }
    return results;
  }
  const Arrays& others() const { return others_; }

 private:
  const Model& model_;
  Arrays others_;  // inputs that are no arguments
};

}  // namespace

// (slices…, parameters and states…) -> (loss, parameters and states…), samples first.
ClosedJaxpr SampleAxis::whole_step() const {
  const Model& model = graph_.module_info.model;
  const bool window = step_ != nullptr && step_->window.has_value();
  Avals in = argument_types(graph_);
  if (step_ != nullptr) {
    in = step_->program.in_avals();
    in.resize(step_->num_slices);
    for (Aval& a : in)
      if (window) a = swapped(a);
  }
  const std::size_t slices = in.size();
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    if (model.inputs[i].role != Role::Arg) in.push_back(model.program.jaxpr.invars[i].aval);
  return make_jaxpr(
      [&](ArraySpan x) {
        Arrays given(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(slices));
        Steps steps(model, Arrays(x.begin() + static_cast<std::ptrdiff_t>(slices), x.end()));
        Arrays outs;
        if (window) {
          for (Array& a : given) a = swapped(a);
          const Arrays args = step_->arguments(given);
          std::vector<Arrays> results;
          for (std::int64_t k = 0; k < *step_->window; ++k) {
            Arrays now = args;
            for (std::size_t i = 0; i < now.size(); ++i)
              if (step_->multi_step[i]) now[i] = squeeze(slice_axis(args[i], 0, k, k + 1), {0});
            results.push_back(steps(now));
          }
          Arrays all;
          for (std::size_t i = 0; i < results[0].size(); ++i) {
            Arrays each;
            for (const Arrays& r : results) each.push_back(r[i]);
            all.push_back(stack(each));
          }
          outs.push_back(swapped(step_->loss(given, all).loss));
        } else if (step_ != nullptr) {
          outs.push_back(step_->loss(given, steps(step_->arguments(given))).loss);
        } else {
          steps(given);
        }
        outs.insert(outs.end(), steps.others().begin(), steps.others().end());
        return outs;
      },
      in);
}

}  // namespace etrace
