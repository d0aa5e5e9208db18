// Whole sequences: checks, then a loop over windows. A window is the unit: it runs as one program, on the
// session's buffers and on its stretch of the data, and one that is not finite changes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/finite.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/run/parts.h"
#include "learn/run/sample_axis.h"
#include "learn/run/window_programs.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "optim/slots.h"

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
      if (group.batch_size != mask.shape()[1])
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

// The sequences as tensors. Data that is not finite would go into states and traces: ValueError, or, where
// such steps are left out, they are marked in `bad`. Padding that is frozen may hold anything, and is zero
// here where it is not finite: no weight takes away what is no number. The padding of one sample is known by
// the axis that is shown to count samples.
Tensors finite_data(const char* what, ArraySpan sequences, const Array& weights, bool freeze,
                    const SampleAxis& axis, NotFinite policy, std::vector<bool>& bad) {
  const auto length = static_cast<std::size_t>(weights.shape()[0]);
  const StepWeights w(freeze ? weights : full({weights.shape()[0]}, 1.0, weights.dtype()));
  Tensors out;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    out.push_back(sequences[i].tensor());
    if (all_finite(out.back())) continue;
    const std::vector<double> values = out.back().to_doubles();
    const std::size_t per_step = values.size() / length, bytes = out.back().aval().bytes() / values.size();
    Tensor clean = Tensor::copy_of(out.back().aval(), out.back().bytes());
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (std::isfinite(values[k])) continue;
      const std::size_t step = k / per_step;
      std::string hint = "Padding may hold anything with a mask of zero there and freeze";
      bool counts = w.counts(step);
      if (counts && w.samples() > 1) {
        if (axis.why_not(i).empty())
          counts = w.counts(step, k % per_step, per_step);
        else
          hint = fmt::format(
              "Other samples count at this step, and nothing shows that the sequence has an "
              "entry per sample ({}): its padding must be finite",
              axis.why_not(i));
      }
      if (counts && policy == NotFinite::Skip) {
        bad.resize(length, false);
        bad[step] = true;
      } else if (counts)
        throw ValueError(what, fmt::format("sequence {} holds {} at step {}; nothing was changed. {}", i,
                                           unsigned_nan(values[k]), step, hint));
      std::memset(clean.writable() + k * bytes, 0, bytes);
    }
    out.back() = std::move(clean);
  }
  return out;
}

// What a mean divides by.
double divisor(double weight, Compat compat) {
  if (compat == Compat::Braintrace) return std::max(weight, 1.0);
  return weight > 0.0 ? weight : 1.0;
}

// The third factor of a call: its own, or the one that stands.
struct CallModulator {
  StepInput value;
  bool by_group = false;
};
CallModulator modulator_of(const char* what, const SequenceOptions& o, std::int64_t length,
                           const Learner::Impl& impl) {
  const LearningRule& rule = *impl.rule;
  const bool by_group = !o.modulators.empty();
  if (by_group && value_of(o.modulator).defined())
    throw ValueError(what, "a modulator for all groups and one per group; give either");
  const StepInput given = by_group ? impl.packed(what, o.modulators) : o.modulator;
  const Array& own = value_of(given);
  if (!rule.takes_modulator()) {
    if (own.defined())
      throw ValueError(what, fmt::format("a modulator was given, but {} takes none", rule.name()));
    return {};
  }
  if (!own.defined() && !impl.modulator.defined())
    throw ValueError(what, fmt::format("{} needs a modulator: give one with the call, or set one with "
                                       "set_modulator",
                                       rule.name()));
  if (!own.defined()) return {impl.modulator, impl.modulator_by_group};
  if (std::holds_alternative<MultiStepData>(given) && (own.rank() == 0 || own.shape()[0] != length))
    throw ValueError(what,
                     fmt::format("the modulator has shape {}; with one value per step its first axis must "
                                 "have {}",
                                 to_string(own.shape()), length));
  return {own.is_weak() ? StepInput(kept_modulator(impl.graph, own)) : given, by_group};
}

// The program of a window, and where its data goes.
struct Prepared {
  bool updates;
  std::int64_t steps;
  Launch* launch;
  bool per_call;                   // aux comes once per window, not once per step
  std::vector<std::size_t> data;   // arguments
  std::vector<std::size_t> hyper;  // arguments
  std::size_t losses;              // results; aux follow
};

WindowPrograms::Types types_of(ArraySpan sequences, const SequenceOptions& o, const Array& weights,
                               const CallModulator& modulator) {
  WindowPrograms::Types out{step_types(sequences), o.mask.defined(), samples_of(weights)};
  if (const Array& m = value_of(modulator.value); m.defined()) {
    out.modulator_by_group = modulator.by_group;
    out.modulator_per_step = std::holds_alternative<MultiStepData>(modulator.value);
    out.modulator = out.modulator_per_step ? Aval{m.dtype(), m.shape().without(0)} : m.aval();
  }
  return out;
}

// A call over a sequence, in windows.
class Windows {
 public:
  Windows(const char* what, Learner::Impl& impl, ArraySpan sequences, const StepFunction& f,
          const SequenceOptions& o, const optim::Optimizer* optimizer = nullptr)
      : what_(what),
        impl_(impl),
        optimizer_(optimizer),
        length_(sequence_length(what, sequences)),
        weights_(weights_of(what, o.mask, length_, impl.graph)),
        modulator_(modulator_of(what, o, length_, impl)),
        programs_(impl, f, types_of(sequences, o, weights_, modulator_), length_, o, optimizer),
        form_(programs_.form()),
        skipped_(static_cast<std::size_t>(length_), false) {
    const std::int64_t each = call_steps();
    impl.require_fitted_for(what, *programs_.objective(each).program);  // refuses a length that is none
    const std::int64_t whole = length_ / each * each;
    const std::int64_t samples = samples_of(weights_).value_or(1);
    const SampleAxis axis(impl.graph, samples, programs_.objective(each).program.get());
    data_ = finite_data(what, sequences, weights_, o.freeze, axis, impl.options.not_finite, bad_);
    if (whole > 0) programs_.objective(each).labels->sequences(what, sequences, weights_, axis, 0, whole);
    if (whole < length_)
      programs_.objective(length_ - whole).labels->sequences(what, sequences, weights_, axis, whole, length_);
    if (form_.weighted) data_.push_back(weights_.tensor());
    if (form_.modulator) data_.push_back(value_of(modulator_.value).tensor());
  }

  std::int64_t length() const { return length_; }
  const WindowPrograms& programs() const { return programs_; }
  std::int64_t call_steps() const { return programs_.call_steps(); }

  // The window of steps [begin, begin + steps), its gradient added to the sums, or with the update behind it.
  // Losses and aux go to their place in the results. False: something was not finite, nothing has changed.
  // Where nothing weighs anything no parameter is updated, and nothing of the optimiser.
  bool sum(std::int64_t begin, std::int64_t steps) { return run(prepared(steps, false), begin); }
  bool train(std::int64_t begin, std::int64_t steps) {
    const Prepared& p = prepared(steps, true);
    give_hyperparameters(*p.launch, p.hyper);
    return run(p, begin);
  }
  // The update from the sums over steps [begin, begin + steps), which are zero again afterwards.
  bool update(std::int64_t begin, std::int64_t steps) {
    Launch& l = impl_.launch(programs_.update());
    const Tensor total = Tensor::full({weights_.dtype(), {}}, weight_of(begin, steps));
    l.give(l.argument(PortRole::Weight, "total_weight"), total.bytes());
    give_hyperparameters(l, hyper_arguments(l));
    const std::string found = fmt::format("the update after step {}", begin + steps - 1);
    if (l.run()) {
      if (l.left_some()) impl_.say_left_out(what_, found);
      return true;
    }
    impl_.zero_sums();
    impl_.say_overflow(what_, found);
    return false;
  }

  Array losses() const { return losses_; }
  Arrays aux() const { return to_arrays(aux_); }
  // Over the steps that were learned from: their weight, and the weighted loss.
  double weight() const { return weight_of(0, length_); }
  double weight_of(std::int64_t begin, std::int64_t steps) const {
    const std::vector<double> all = weights_.tensor().to_doubles();
    const std::size_t per_step = all.size() / static_cast<std::size_t>(length_);
    double total = 0.0;
    for (std::size_t i = static_cast<std::size_t>(begin) * per_step;
         i < static_cast<std::size_t>(begin + steps) * per_step; ++i)
      if (!skipped_[i / per_step]) total += all[i];
    return total;
  }
  double loss() const {
    const std::vector<double> l = losses_.to_doubles(), w = weights_.tensor().to_doubles();
    const std::size_t per_step = l.size() / static_cast<std::size_t>(length_);
    double total = 0.0;
    for (std::size_t i = 0; i < l.size(); ++i)
      if (w[i] != 0.0 && !skipped_[i / per_step]) total += l[i] * w[i];
    return form_.reduction == Reduction::Sum ? total : total / divisor(weight(), impl_.graph.options.compat);
  }

 private:
  const Prepared& prepared(std::int64_t steps, bool updates) {
    for (const Prepared& p : prepared_)
      if (p.steps == steps && p.updates == updates) return p;
    const Learner::Impl::KnownObjective& known = programs_.objective(steps);
    Launch& l = impl_.launch(programs_.window(steps, updates));
    Prepared p{updates, steps, &l, known.program->window.has_value(), {}, {}, 0};
    for (std::size_t i = 0; i < programs_.slices().size(); ++i)
      p.data.push_back(l.argument(PortRole::Slice, fmt::format("slice{}", i)));
    if (form_.weighted) p.data.push_back(l.argument(PortRole::Weight, "weights"));
    if (form_.modulator) p.data.push_back(l.argument(PortRole::Signal, "modulator"));
    if (updates) p.hyper = hyper_arguments(l);
    p.losses = l.result(PortRole::Loss, "losses");
    aux_.resize(known.program->num_aux());
    return prepared_.emplace_back(std::move(p));
  }

  bool run(const Prepared& p, std::int64_t begin) {
    Launch& l = *p.launch;
    if (ahead_ == &p && ahead_begin_ == begin)
      l.take_ahead();
    else
      for (std::size_t i = 0; i < p.data.size(); ++i) l.give(p.data[i], data_at(i, begin));
    ahead_ = nullptr;
    const bool bad = any_of_steps(bad_, begin, p.steps);
    take(p, p.losses, losses_, length_, begin);
    const std::int64_t calls = (length_ + call_steps() - 1) / call_steps();
    for (std::size_t i = 0; i < aux_.size(); ++i)
      take(p, p.losses + 1 + i, aux_[i], p.per_call ? calls : length_,
           p.per_call ? begin / call_steps() : begin);
    if (bad) return leave_out(p, begin);
    l.start();
    give_ahead(p, begin + p.steps);
    const bool finite = l.finish();
    if (finite && !l.left_some()) return true;
    const std::string found = steps_text(begin, p.steps);
    if (finite) {
      impl_.say_left_out(what_, found);
      return true;
    }
    std::fill_n(skipped_.begin() + begin, p.steps, true);
    impl_.say_not_finite(what_, found);
    return false;
  }
  // A window with data that is not finite, of a learner that leaves such windows out.
  bool leave_out(const Prepared& p, std::int64_t begin) {
    std::fill_n(skipped_.begin() + begin, p.steps, true);
    ++impl_.skipped;
    clear_part(losses_, length_, begin, p.steps);
    const std::int64_t calls = (length_ + call_steps() - 1) / call_steps();
    for (Tensor& a : aux_)
      p.per_call ? clear_part(a, calls, begin / call_steps(), 1) : clear_part(a, length_, begin, p.steps);
    return false;
  }

  const std::byte* data_at(std::size_t i, std::int64_t begin) const {
    const bool timed = !form_.modulator || form_.modulator_per_step || i + 1 < data_.size();
    return data_[i].bytes() + (timed ? bytes_before(data_[i].aval(), length_, begin) : 0);
  }
  // On a device the data of the next window goes there while this one runs. It counts if that window comes.
  void give_ahead(const Prepared& p, std::int64_t begin) {
    if (begin + p.steps > length_) return;
    for (std::size_t i = 0; i < p.data.size(); ++i)
      if (!p.launch->give_ahead(p.data[i], data_at(i, begin))) return;
    ahead_ = &p, ahead_begin_ = begin;
  }

  // A part of a result that has `total` entries in all, from entry `begin` on.
  void take(const Prepared& p, std::size_t result, Tensor& all, std::int64_t total, std::int64_t begin) {
    const Aval one = entry_type(p.launch->program().results[result].aval, p.steps);
    if (all.defined() && all.aval() != Aval{one.dtype, one.shape.with_front(total)})
      throw ValueError(what_,
                       fmt::format("the step function gives an aux of type {} for a shorter window; it "
                                   "must have the same type, {}, for every window",
                                   to_string(one), to_string(Aval{all.dtype(), all.shape().without(0)})));
    take_part(*p.launch, result, p.steps, all, total, begin);
  }

  std::vector<std::size_t> hyper_arguments(const Launch& l) const {
    std::vector<std::size_t> out;
    for (const std::string& name : optimizer_->hyperparameter_names(impl_.params))
      out.push_back(l.argument(PortRole::Hyperparameter, fmt::format("{}/{}", optimizer_->name(), name)));
    return out;
  }
  void give_hyperparameters(Launch& l, const std::vector<std::size_t>& arguments) {
    hyper_.resize(arguments.size());
    optimizer_->hyperparameters(impl_.session.integer(PortRole::OptimizerSlot, "optimizer/step"), hyper_);
    for (std::size_t i = 0; i < arguments.size(); ++i) l.give(arguments[i], &hyper_[i]);
  }

  const char* what_;
  Learner::Impl& impl_;
  const optim::Optimizer* optimizer_;
  std::int64_t length_;
  Array weights_;
  CallModulator modulator_;
  WindowPrograms programs_;
  const WindowForm& form_;
  Tensors data_;
  std::vector<double> hyper_;
  std::deque<Prepared> prepared_;
  const Prepared* ahead_ = nullptr;  // whose data is on its way
  std::int64_t ahead_begin_ = 0;
  std::vector<bool> skipped_;  // steps of windows that were not finite
  std::vector<bool> bad_;      // steps with data that is not; empty: none
  Tensor losses_;
  Tensors aux_;
};

}  // namespace

SequenceGradient Learner::etrace_grad(ArraySpan sequences, const StepFunction& f, const SequenceOptions& o) {
  Impl& impl = *impl_;
  Windows windows("etrace_grad", impl, sequences, f, o);
  impl.zero_sums();
  std::int64_t begin = 0;
  for (const std::int64_t steps : windows.programs().lengths(windows.length(), impl.execution.window)) {
    windows.sum(begin, steps);
    begin += steps;
  }
  SequenceGradient result{{impl.params, {}}, windows.losses(), windows.loss(), windows.aux()};
  const double weight =
      o.reduction == Reduction::Sum ? 1.0 : divisor(windows.weight(), impl.graph.options.compat);
  bool finite = true;
  for (const ParamLeafId& p : impl.params) {
    const Tensor sum = impl.session.taken(PortRole::Gradient, impl.param_name(p));
    finite = finite && all_finite(sum);
    result.grads.values.push_back(weight == 1.0 ? Array(sum)
                                                : Array(sum) / convert(Array(weight), sum.dtype()));
  }
  if (!finite) {
    impl.say_overflow("etrace_grad", "the sum of the gradients");
    for (Array& g : result.grads.values) g = zeros_of(g.aval());
  }
  return result;
}

SequenceGradient Learner::etrace_grad(const Array& inputs, const Array& targets, const Loss& loss,
                                      const SequenceOptions& o) {
  return etrace_grad(
      Arrays{inputs, targets},
      impl_->step_function(loss, o.chunk_size.value_or(1) > 1, o.mask.defined() && o.mask.rank() == 2), o);
}

Arrays Learner::etrace_evolve(ArraySpan sequences, const EvolveOptions& o) {
  const char* what = "etrace_evolve";
  const std::int64_t length = sequence_length(what, sequences);
  const Avals expected = argument_types(impl_->graph), found = step_types(sequences);
  if (found != expected) {
    std::string wanted, given;
    for (const Aval& a : expected) wanted += " " + to_string(a);
    for (const Aval& a : found) given += " " + to_string(a);
    throw ValueError(
        what, fmt::format("one step of the sequences has the types{}, but the model takes{}", given, wanted));
  }
  const Array weights = weights_of(what, o.mask, length, impl_->graph);
  const SampleAxis axis(impl_->graph, samples_of(weights).value_or(1));
  std::vector<bool> bad;
  const Arrays data =
      to_arrays(finite_data(what, sequences, weights, o.freeze, axis, impl_->options.not_finite, bad));
  const EvolveForm form{.samples = samples_of(weights), .freeze = o.freeze};
  const std::int64_t window = impl_->execution.window;
  return impl_->evolve(what, data, o.freeze ? weights : Array(), form,
                       {length, (length + window - 1) / window, 0, std::move(bad)});
}

void require_same_parameters(const char* what, const optim::Optimizer& optimizer,
                             std::span<const std::shared_ptr<State>> params) {
  if (!optimizer.bound())
    throw ValueError(what, "the optimiser is bound to no model; make it with the model, or call bind(model)");
  for (const std::shared_ptr<State>& p : params)
    if (std::find(optimizer.params().begin(), optimizer.params().end(), p) == optimizer.params().end())
      throw ValueError(
          what,
          fmt::format("the optimiser is bound to another model: {} is not among its parameters. Make it "
                      "with the model that was compiled",
                      p->name_in_owner()));
}

SequenceTraining Learner::etrace_train(ArraySpan sequences, const StepFunction& f,
                                       optim::Optimizer& optimizer, const TrainOptions& o) {
  const char* what = "etrace_train";
  Impl& impl = *impl_;
  require_same_parameters(what, optimizer, impl.param_states);
  Windows windows(what, impl, sequences, f, o, &optimizer);
  const std::vector<WindowPrograms::Stretch> stretches = windows.programs().stretches(what, o);
  optim::use_slots(impl.session, optimizer, impl.params);
  impl.zero_sums();
  SequenceTraining result;
  result.updates = 0;
  for (const WindowPrograms::Stretch& s : stretches) {
    const auto count = [&](bool updated) {
      result.updates += updated && windows.weight_of(s.begin, s.steps) > 0.0 ? 1 : 0;
    };
    if (s.windows.size() == 1) {
      count(windows.train(s.begin, s.steps));
      continue;
    }
    std::int64_t at = s.begin;
    for (const std::int64_t steps : s.windows) {
      windows.sum(at, steps);
      at += steps;
    }
    count(windows.update(s.begin, s.steps));
  }
  result.losses = windows.losses();
  result.loss = windows.loss();
  result.aux = windows.aux();
  return result;
}

SequenceTraining Learner::etrace_train(const Array& inputs, const Array& targets, const Loss& loss,
                                       optim::Optimizer& optimizer, const TrainOptions& o) {
  return etrace_train(
      Arrays{inputs, targets},
      impl_->step_function(loss, o.chunk_size.value_or(1) > 1, o.mask.defined() && o.mask.rank() == 2),
      optimizer, o);
}

}  // namespace etrace
