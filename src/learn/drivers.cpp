// Whole sequences: checks, the program (made once per form), and what comes back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/finite.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/interface.h"
#include "learn/learner_impl.h"
#include "learn/lists.h"

namespace etrace {

namespace {

std::int64_t sequence_length(const char* what, ArraySpan sequences) {
  if (sequences.empty())
    throw ValueError(what, "no sequence; give at least one array with time as its first axis");
  std::int64_t length = -1;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].rank() == 0)
      throw ValueError(what, fmt::format("sequence {} is a scalar; it needs a time axis", i));
    const std::int64_t n = sequences[i].shape()[0];
    if (n < 1) throw ValueError(what, fmt::format("sequence {} has no step", i));
    if (length >= 0 && n != length)
      throw ValueError(what, fmt::format("sequence {} has {} steps, but sequence 0 has {}", i, n, length));
    length = n;
  }
  return length;
}

Avals step_types(ArraySpan sequences) {
  Avals out;
  for (const Array& a : sequences) out.push_back({a.dtype(), a.shape().without(0)});
  return out;
}

// [T], or [T, B] for a weight per sample; none is negative.
Array weights_of(const char* what, const Array& mask, std::int64_t length, const ETraceGraph& g) {
  const Dtype dtype = working_dtype(g);
  if (!mask.defined()) return full({length}, 1.0, dtype);
  const bool per_sample = mask.rank() == 2;
  if ((mask.rank() != 1 && !per_sample) || mask.shape()[0] != length)
    throw ValueError(
        what,
        fmt::format("the mask has shape {}, expected [{}]: one weight per step, or [{}, batch]: one per "
                    "step and sample",
                    to_string(mask.shape()), length, length));
  if (per_sample)
    for (const HiddenGroup& group : g.hidden_groups)
      if (group.varshape().rank() == 0 || group.varshape()[0] != mask.shape()[1])
        throw ValueError(
            what, fmt::format("the mask has weights for {} samples, but the hidden states of group {} have "
                              "shape {}: they need a leading batch axis of that size",
                              mask.shape()[1], group.index, to_string(group.varshape())));
  const std::vector<double> values = mask.tensor().to_doubles();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!(values[i] >= 0.0) || !std::isfinite(values[i]))
      throw ValueError(what,
                       fmt::format("the mask holds {}; weights must be finite and not negative", values[i]));
  return convert(mask, dtype);
}

std::optional<std::int64_t> samples_of(const Array& weights) {
  return weights.rank() == 2 ? std::optional(weights.shape()[1]) : std::nullopt;
}

// Data that is no number would go into states and traces; padding that is frozen may hold anything.
void require_finite(const char* what, ArraySpan sequences, const Array& weights, bool freeze) {
  std::vector<bool> counts(static_cast<std::size_t>(weights.shape()[0]), true);
  if (freeze) {
    const std::vector<double> w = weights.tensor().to_doubles();
    const std::size_t per_step = w.size() / counts.size();
    for (std::size_t t = 0; t < counts.size(); ++t)
      counts[t] = std::any_of(w.begin() + static_cast<std::ptrdiff_t>(t * per_step),
                              w.begin() + static_cast<std::ptrdiff_t>((t + 1) * per_step),
                              [](double v) { return v != 0.0; });
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (!is_floating(sequences[i].dtype()) || sequences[i].splat()) continue;
    if (all_finite(sequences[i].tensor())) continue;
    const std::vector<double> values = sequences[i].tensor().to_doubles();
    const std::size_t per_step = values.size() / counts.size();
    for (std::size_t k = 0; k < values.size(); ++k)
      if (!std::isfinite(values[k]) && counts[k / per_step])
        throw ValueError(what,
                         fmt::format("sequence {} holds {} at step {}; nothing was changed. Padding may hold "
                                     "anything with a mask of zero there and freeze",
                                     i, values[k], k / per_step));
  }
}

double reduced_loss(const Array& losses, const Array& weights, Reduction reduction, Compat compat) {
  double total = 0.0, weight = 0.0;
  const std::vector<double> l = losses.tensor().to_doubles(), w = weights.tensor().to_doubles();
  for (std::size_t i = 0; i < l.size(); ++i) {
    if (w[i] != 0.0) total += l[i] * w[i];
    weight += w[i];
  }
  if (reduction == Reduction::Sum) return total;
  if (compat == Compat::Braintrace) return total / std::max(weight, 1.0);
  return weight > 0.0 ? total / weight : total;
}

// The third factor of a call: its own, or the one that stands.
StepInput modulator_of(const char* what, const StepInput& given, std::int64_t length,
                       const LearningRule& rule, const Array& standing) {
  const Array& own = value_of(given);
  if (!rule.takes_modulator()) {
    if (own.defined())
      throw ValueError(what, fmt::format("a modulator was given, but {} takes none", rule.name()));
    return {};
  }
  if (!own.defined() && !standing.defined())
    throw ValueError(what, fmt::format("{} needs a modulator: give one with the call, or set one with "
                                       "set_modulator",
                                       rule.name()));
  if (!own.defined()) return standing;
  if (std::holds_alternative<MultiStepData>(given) && (own.rank() == 0 || own.shape()[0] != length))
    throw ValueError(what,
                     fmt::format("the modulator has shape {}; with one value per step its first axis must "
                                 "have {}",
                                 to_string(own.shape()), length));
  return given;
}

SequenceForm form_of(const SequenceOptions& o, const StepInput& modulator, std::int64_t length,
                     const Array& weights, const ExecutionChoice& execution) {
  SequenceForm form;
  form.length = length;
  form.chunk = o.chunk_size;
  form.execution_window = execution.window;
  form.weighted = o.mask.defined();
  form.samples = samples_of(weights);
  form.freeze = o.freeze && form.weighted;
  form.reduction = o.reduction;
  if (value_of(modulator).defined()) form.modulator = value_of(modulator).aval();
  form.modulator_per_step = std::holds_alternative<MultiStepData>(modulator);
  return form;
}

std::string form_key(const SequenceForm& f, std::size_t objective) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", objective, f.length.value_or(0), f.execution_window,
                     f.weighted, f.samples.value_or(0), f.freeze, static_cast<int>(f.reduction),
                     f.modulator ? to_string(*f.modulator) : "", f.modulator_per_step);
}

Arrays data_of(ArraySpan sequences, const SequenceForm& form, const Array& weights,
               const StepInput& modulator) {
  return joined({sequences, form.weighted ? Arrays{weights} : Arrays{},
                 form.modulator ? Arrays{value_of(modulator)} : Arrays{}});
}

[[noreturn]] void not_finite(const char* what, double loss) {
  throw ValueError(
      what,
      fmt::format("the loss is {}; parameters, optimiser and states are as before, the traces start anew. "
                  "A smaller learning rate or clipping (clip_norm) may help",
                  loss));
}

}  // namespace

SequenceGradient Learner::etrace_grad(ArraySpan sequences, const StepFunction& f, const SequenceOptions& o) {
  const char* what = "etrace_grad";
  Impl& impl = this->impl();
  const std::int64_t length = sequence_length(what, sequences);
  const Array weights = weights_of(what, o.mask, length, impl.graph);
  const StepInput modulator = modulator_of(what, o.modulator, length, *impl.rule, impl.modulator);
  const SequenceForm form = form_of(o, modulator, length, weights, impl.execution);
  const Avals slices = step_types(sequences);
  const Impl::KnownObjective known = impl.objective(f, slices, form);
  impl.require_fitted_for(what, *known.objective, form);
  require_finite(what, sequences, weights, o.freeze);
  const Loaded& code = impl.program("grad " + form_key(form, known.number),
                                    [&] { return impl.builder.gradient(*known.objective, slices, form); });
  const Impl::Outcome out = impl.run(code, data_of(sequences, form, weights, modulator));
  const Arrays all = to_arrays(out.results);
  ArraySpan left = all;
  SequenceGradient result;
  result.losses = take_front(left, 1)[0];
  result.aux = to_list(take_front(left, known.objective->steps.num_aux()));
  result.grads = {param_leaf_ids(impl.graph.module_info), to_list(left)};
  result.loss = reduced_loss(result.losses, weights, o.reduction, impl.graph.options.compat);
  if (!std::isfinite(result.loss)) {
    impl.forget_traces();
    not_finite(what, result.loss);
  }
  impl.commit(out);
  return result;
}

SequenceGradient Learner::etrace_grad(const Array& inputs, const Array& targets, const Loss& loss,
                                      const SequenceOptions& o) {
  return etrace_grad(
      Arrays{inputs, targets},
      impl().step_function(loss, o.chunk_size.value_or(1) > 1, o.mask.defined() && o.mask.rank() == 2), o);
}

Arrays Learner::etrace_evolve(ArraySpan sequences, const EvolveOptions& o) {
  const char* what = "etrace_evolve";
  Impl& impl = this->impl();
  const std::int64_t length = sequence_length(what, sequences);
  const Avals expected = argument_types(impl.graph), found = step_types(sequences);
  if (found != expected) {
    std::string wanted, given;
    for (const Aval& a : expected) wanted += " " + to_string(a);
    for (const Aval& a : found) given += " " + to_string(a);
    throw ValueError(
        what, fmt::format("one step of the sequences has the types{}, but the model takes{}", given, wanted));
  }
  const Array weights = weights_of(what, o.mask, length, impl.graph);
  EvolveForm form;
  form.length = length;
  form.window = impl.execution.window;
  form.samples = samples_of(weights);
  form.freeze = o.freeze;
  const Loaded& code =
      impl.program(fmt::format("evolve {} {} {}", length, form.samples.value_or(0), o.freeze),
                   [&] { return impl.builder.evolve(form); });
  const Impl::Outcome out =
      impl.run(code, o.freeze ? joined({sequences, Arrays{weights}}) : to_list(sequences));
  impl.commit(out);
  return to_arrays(out.results);
}

void require_same_parameters(const char* what, const optim::Optimizer& optimizer,
                             const std::vector<ModelLeaf>& params) {
  if (!optimizer.bound())
    throw ValueError(what, "the optimiser is bound to no model; make it with the model, or call bind(model)");
  for (const ModelLeaf& p : params) {
    if (p.state == nullptr) continue;  // from a file: the parameters are the learner's own
    const bool found = std::any_of(optimizer.params().begin(), optimizer.params().end(),
                                   [&](const std::shared_ptr<State>& s) { return s == p.state; });
    if (!found)
      throw ValueError(
          what,
          fmt::format("the optimiser is bound to another model: {} is not among its parameters. Make it "
                      "with the model that was compiled",
                      p.name));
  }
}

SequenceTraining Learner::etrace_train(ArraySpan sequences, const StepFunction& f,
                                       optim::Optimizer& optimizer, const TrainOptions& o) {
  Impl& impl = this->impl();
  const char* what = "etrace_train";
  require_same_parameters(what, optimizer, impl.params);
  const std::int64_t length = sequence_length(what, sequences);
  const Array weights = weights_of(what, o.mask, length, impl.graph);
  const StepInput modulator = modulator_of(what, o.modulator, length, *impl.rule, impl.modulator);
  const SequenceForm form = form_of(o, modulator, length, weights, impl.execution);
  const Avals slices = step_types(sequences);
  std::int64_t every = length;
  if (o.update == UpdateEvery::Step) every = 1;
  if (o.update == UpdateEvery::Window)
    every = o.window > 0 ? o.window : form.chunk ? *form.chunk : impl.execution.window;
  every = std::min(every, length);
  const std::int64_t call = std::min(form.chunk.value_or(1), length);
  if (every % call != 0 && every < length)
    throw ValueError(what, fmt::format("an update every {} steps, but the step function takes windows of {}",
                                       every, call));
  const Impl::KnownObjective known = impl.objective(f, slices, form);
  impl.require_fitted_for(what, *known.objective, form);
  require_finite(what, sequences, weights, o.freeze);

  // The optimiser's state under the names of this learner's parameters.
  const std::vector<ParamLeafId> leaves = param_leaf_ids(impl.graph.module_info);
  const std::vector<std::string> names = optimizer.state_names(leaves);
  std::vector<std::pair<std::string, Tensor>> entries = optimizer.state();
  Tensors slots;
  for (const std::string& name : names)
    for (const auto& [key, value] : entries)
      if (key == name) slots.push_back(value);
  if (slots.size() != names.size())
    throw ValueError(what, "the optimiser is bound to another model: it holds no state for some parameters");
  const std::int64_t updates = (length + every - 1) / every, first = to_int(slots[0].at(0));
  Arrays hyper;
  {
    std::vector<std::vector<double>> by_name(optimizer.hyperparameter_names(leaves).size());
    for (std::int64_t u = 0; u < updates; ++u) {
      const std::vector<double> now = optimizer.hyperparameters(first + u);
      for (std::size_t i = 0; i < now.size(); ++i) by_name[i].push_back(now[i]);
    }
    for (const std::vector<double>& values : by_name) hyper.push_back(Array(Tensor::of(values, {updates})));
  }
  const Loaded& code = impl.program(
      fmt::format("train {} {} {}", every, impl.optimizer_number(optimizer), form_key(form, known.number)),
      [&] { return impl.builder.train(*known.objective, slices, form, optimizer, every); });
  const Impl::Outcome out =
      impl.run(code, joined({hyper, data_of(sequences, form, weights, modulator)}), slots);
  const Arrays all = to_arrays(out.results);
  ArraySpan left = all;
  SequenceTraining result;
  result.losses = take_front(left, 1)[0];
  result.aux = to_list(left);
  result.loss = reduced_loss(result.losses, weights, o.reduction, impl.graph.options.compat);
  result.updates = updates;
  if (!std::isfinite(result.loss)) {
    impl.forget_traces();
    not_finite(what, result.loss);
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    for (auto& [entry, value] : entries)
      if (entry == names[i]) value = out.slots[i];
  optimizer.set_state(entries);
  impl.commit(out);
  return result;
}

SequenceTraining Learner::etrace_train(const Array& inputs, const Array& targets, const Loss& loss,
                                       optim::Optimizer& optimizer, const TrainOptions& o) {
  return etrace_train(
      Arrays{inputs, targets},
      impl().step_function(loss, o.chunk_size.value_or(1) > 1, o.mask.defined() && o.mask.rank() == 2),
      optimizer, o);
}

}  // namespace etrace
