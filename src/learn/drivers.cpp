// Whole sequences: checks, the program (made once per form), and what comes back.
#include <fmt/format.h>

#include <cmath>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/interface.h"
#include "learn/learner_impl.h"
#include "learn/lists.h"
#include "learn/sequence.h"

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

Array weights_of(const char* what, const Array& mask, std::int64_t length, Dtype dtype) {
  if (!mask.defined()) return full({length}, 1.0, dtype);
  if (mask.shape() != Shape{length})
    throw ValueError(what, fmt::format("the mask has shape {}, expected [{}]: one weight per step",
                                       to_string(mask.shape()), length));
  return convert(mask, dtype);
}

// The step function of a whole sequence, and the steps that one call of it takes.
StepProgram step_program(const char* what, const ETraceGraph& g, const LearningRule& rule,
                         const StepFunction& f, ArraySpan sequences, std::int64_t length,
                         std::optional<std::int64_t> chunk) {
  if (chunk && *chunk < 1)
    throw ValueError(what, fmt::format("chunk_size is {}; it must be at least 1", *chunk));
  const bool multi = rule.vjp_method() == VjpMethod::MultiStep;
  const Avals types = step_types(sequences);
  if (!chunk || *chunk == 1)
    return multi ? StepProgram::trace_unit_window(g, f, types) : StepProgram::trace(g, f, types);
  if (!multi)
    throw ValueError(what,
                     fmt::format("chunk_size {} needs a learner with vjp_method multi-step; this one is "
                                 "single-step and runs in windows by itself",
                                 *chunk));
  if (length % *chunk != 0)
    throw ValueError(
        what, fmt::format("chunk_size {} does not divide the {} steps of the sequence", *chunk, length));
  Avals windows;
  for (const Aval& a : types) windows.push_back({a.dtype, a.shape.with_front(*chunk)});
  return StepProgram::trace(g, f, windows, *chunk);
}

StepFunction of_loss(const Loss& loss, std::optional<std::int64_t> chunk) {
  if (!chunk || *chunk == 1)
    return [loss](StepCall& model, ArraySpan s) { return LossAndAux{loss(model(s[0]), s[1])}; };
  return [loss](StepCall& model, ArraySpan s) {
    const Array out = model(MultiStepData{s[0]});
    Arrays losses;
    for (std::int64_t k = 0; k < out.shape()[0]; ++k)
      losses.push_back(
          loss(squeeze(slice_axis(out, 0, k, k + 1), {0}), squeeze(slice_axis(s[1], 0, k, k + 1), {0})));
    return LossAndAux{stack(losses)};
  };
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

// What a program is called with, and what it gives, in pieces.
struct Pieces {
  ArraySpan in;
  ArraySpan take(std::size_t count) {
    const ArraySpan front = in.first(count);
    in = in.subspan(count);
    return front;
  }
  Arrays take_list(std::size_t count) {
    const ArraySpan front = take(count);
    return {front.begin(), front.end()};
  }
};

Avals types_with(ArraySpan sequences, const Array& weights) {
  Avals out = avals_of(sequences);
  out.push_back(weights.aval());
  return out;
}

}  // namespace

SequenceGradient Learner::etrace_grad(ArraySpan sequences, const StepFunction& f, const SequenceOptions& o) {
  Impl& impl = *impl_;
  const std::int64_t length = sequence_length("etrace_grad", sequences);
  const Array weights = weights_of("etrace_grad", o.mask, length, working_dtype(impl.graph));
  const StepProgram step =
      step_program("etrace_grad", impl.graph, *impl.rule, f, sequences, length, o.chunk_size);
  const std::size_t np = impl.params.size(), ns = impl.states.size(), nm = impl.memory.size(),
                    num_aux = step.program.jaxpr.outs.size() - step.num_args - 1;
  const Reduction reduction = o.reduction;
  const Compat compat = impl.graph.options.compat;
  const std::string key =
      fmt::format("grad {} {} {}", step.window.value_or(0), static_cast<int>(reduction), o.freeze);
  const Executable& run = impl.program(key, &step.program, types_with(sequences, weights), [&](ArraySpan in) {
    Pieces x{in};
    const ArraySpan params = x.take(np);
    const Arrays states = x.take_list(ns), memory = x.take_list(nm);
    const SequenceDriver driver(impl.builder, step, impl.options.execution_window);
    const PlanBuilder::Learned l =
        driver.gradients(params, {states, memory}, x.take(sequences.size()), x.in.back(), o.freeze);
    return joined({Arrays{l.losses}, l.aux, l.carry.states, l.carry.memory,
                   reduced(l.gradients, x.in.back(), reduction, compat)});
  });
  const Arrays out = to_arrays(run(impl.inputs(joined({sequences, Arrays{weights}}))));
  Pieces y{out};
  SequenceGradient result;
  result.losses = y.take(1)[0];
  result.aux = y.take_list(num_aux);
  const Tensors states = to_tensors(y.take(ns)), memory = to_tensors(y.take(nm));
  result.grads = {param_leaf_ids(impl.graph.module_info), Arrays(y.in.begin(), y.in.end())};
  result.loss = reduced_loss(result.losses, weights, reduction, compat);
  impl.write(states, memory);
  return result;
}

SequenceGradient Learner::etrace_grad(const Array& inputs, const Array& targets, const Loss& loss,
                                      const SequenceOptions& o) {
  return etrace_grad(Arrays{inputs, targets}, of_loss(loss, o.chunk_size), o);
}

Arrays Learner::etrace_evolve(ArraySpan sequences, const EvolveOptions& o) {
  Impl& impl = *impl_;
  const std::int64_t length = sequence_length("etrace_evolve", sequences);
  const Avals expected = argument_types(impl.graph), found = step_types(sequences);
  if (found != expected) {
    std::string wanted, given;
    for (const Aval& a : expected) wanted += " " + to_string(a);
    for (const Aval& a : found) given += " " + to_string(a);
    throw ValueError(
        "etrace_evolve",
        fmt::format("one step of the sequences has the types{}, but the model takes{}", given, wanted));
  }
  const Array weights = weights_of("etrace_evolve", o.mask, length, working_dtype(impl.graph));
  const std::size_t np = impl.params.size(), ns = impl.states.size(), nm = impl.memory.size();
  const std::int64_t window = std::min(impl.options.execution_window, length);
  const Executable& run = impl.program(
      fmt::format("evolve {}", o.freeze), nullptr, types_with(sequences, weights), [&](ArraySpan in) {
        Pieces x{in};
        const ArraySpan params = x.take(np);
        const Arrays states = x.take_list(ns), memory = x.take_list(nm);
        return evolve_sequence(impl.builder, params, {states, memory}, x.in.first(sequences.size()),
                               o.freeze ? not_equal_to(x.in.back(), 0.0) : Array(), window);
      });
  const Tensors out = run(impl.inputs(joined({sequences, Arrays{weights}})));
  const std::size_t results = out.size() - ns - nm;
  impl.write(std::span(out).subspan(results, ns), std::span(out).subspan(results + ns));
  return to_arrays(std::span(out).first(results));
}

SequenceTraining Learner::etrace_train(ArraySpan sequences, const StepFunction& f,
                                       optim::Optimizer& optimizer, const TrainOptions& o) {
  Impl& impl = *impl_;
  const char* what = "etrace_train";
  if (!optimizer.bound())
    throw ValueError(what, "the optimiser is bound to no model; make it with the model, or call bind(model)");
  const std::int64_t length = sequence_length(what, sequences);
  const Array weights = weights_of(what, o.mask, length, working_dtype(impl.graph));
  const StepProgram step = step_program(what, impl.graph, *impl.rule, f, sequences, length, o.chunk_size);
  const std::int64_t call = step.window.value_or(1);
  std::int64_t every = length;
  if (o.update == UpdateEvery::Step) every = 1;
  if (o.update == UpdateEvery::Window)
    every = o.window > 0 ? o.window : step.window ? *step.window : impl.options.execution_window;
  every = std::min(every, length);
  if (every % call != 0)
    throw ValueError(what, fmt::format("an update every {} steps, but the step function takes windows of {}",
                                       every, call));

  // The optimiser's state under the names of this learner's parameters.
  const std::vector<ParamLeafId> leaves = param_leaf_ids(impl.graph.module_info);
  const std::vector<std::string> names = optimizer.state_names(leaves);
  std::vector<std::pair<std::string, Tensor>> entries = optimizer.state();
  Arrays state;
  for (const std::string& name : names)
    for (const auto& [key, value] : entries)
      if (key == name) state.push_back(value);
  if (state.size() != names.size())
    throw ValueError(what, "the optimiser is bound to another model: it holds no state for some parameters");
  const std::size_t np = impl.params.size(), ns = impl.states.size(), nm = impl.memory.size(),
                    no = state.size(), num_aux = step.program.jaxpr.outs.size() - step.num_args - 1;
  Avals types = avals_of(state);
  const Avals more = types_with(sequences, weights);
  types.insert(types.end(), more.begin(), more.end());
  const std::string key =
      fmt::format("train {} {} {} {} {}", step.window.value_or(0), static_cast<int>(o.reduction), o.freeze,
                  every, static_cast<const void*>(&optimizer));
  const Executable& run = impl.program(key, &step.program, types, [&](ArraySpan in) {
    Pieces x{in};
    const ArraySpan params = x.take(np);
    const Arrays states = x.take_list(ns), memory = x.take_list(nm);
    const ArraySpan opt = x.take(no);
    const SequenceDriver driver(impl.builder, step, impl.options.execution_window);
    const SequenceDriver::Trained t = driver.train(params, opt, {states, memory}, x.take(sequences.size()),
                                                   x.in.back(), o.freeze, optimizer, o.reduction, every);
    return joined({Arrays{t.losses}, t.aux, t.carry.states, t.carry.memory, t.params, t.optimizer});
  });
  const Arrays out = to_arrays(run(impl.inputs(joined({state, sequences, Arrays{weights}}))));
  Pieces y{out};
  SequenceTraining result;
  result.losses = y.take(1)[0];
  result.aux = y.take_list(num_aux);
  result.loss = reduced_loss(result.losses, weights, o.reduction, impl.graph.options.compat);
  result.updates = (length + every - 1) / every;
  if (!std::isfinite(result.loss))
    throw ValueError(what,
                     fmt::format("the loss is {}; nothing was changed. A smaller learning rate or clipping "
                                 "(clip_norm) may help",
                                 result.loss));
  const Tensors states = to_tensors(y.take(ns)), memory = to_tensors(y.take(nm)),
                params = to_tensors(y.take(np));
  for (std::size_t i = 0; i < names.size(); ++i)
    for (auto& [entry, value] : entries)
      if (entry == names[i]) value = y.in[i].tensor();
  optimizer.set_state(entries);
  for (std::size_t i = 0; i < np; ++i) impl.params[i].set(params[i]);
  impl.write(states, memory);
  return result;
}

SequenceTraining Learner::etrace_train(const Array& inputs, const Array& targets, const Loss& loss,
                                       optim::Optimizer& optimizer, const TrainOptions& o) {
  return etrace_train(Arrays{inputs, targets}, of_loss(loss, o.chunk_size), optimizer, o);
}

}  // namespace etrace
