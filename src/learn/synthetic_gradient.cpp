// The fit of a synthesizer; see the header. One program per window: its gradient, one step of the regression.
#include "etrace/synthetic_gradient.h"

#include <fmt/format.h>

#include <cmath>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "learn/interface.h"
#include "learn/learner_impl.h"
#include "learn/lists.h"
#include "learn/online_run.h"

namespace etrace {

namespace {

constexpr const char* kFit = "train_synthetic_gradient";

class Fit {
 public:
  Fit(const ETraceGraph& g, const BoundRule& rule, const StepProgram& step, const optim::Optimizer& optimizer)
      : g_(g), rule_(rule), step_(step), optimizer_(optimizer), slots_(rule.slots()) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].role == PortRole::RuleParam) fitted_.push_back(i);
    const Model& m = g.module_info.model;
    for (const InputRecord& in : m.inputs) {
      if (is_state(in.role)) paths_.push_back(in.path);
    }
  }

  const std::vector<std::size_t>& fitted() const { return fitted_; }

  // (error, own, optimiser's state, states) after one window.
  Arrays window(ArraySpan params, ArraySpan states, ArraySpan slices, ArraySpan own, ArraySpan slots,
                const Array& age) const {
    const Arrays in = joined({states, params, slices, own, Arrays{age}});
    const ClosedJaxpr total = make_jaxpr(
        [&](ArraySpan a) {
          const ArraySpan s = take_front(a, states.size()), p = take_front(a, params.size()),
                          x = take_front(a, slices.size()), o = take_front(a, own.size());
          const Ran ran = run(p, s, x);
          Array all = sum(ran.losses);
          const Arrays exit = slabs(ran.states), later = estimates(p, o, exit, a[0]);
          for (std::size_t k = 0; k < exit.size(); ++k)
            all = all + convert(sum(exit[k] * stop_gradient(later[k])), all.dtype());
          return joined({Arrays{all}, ran.states});
        },
        avals_of(in));
    Mask active(in.size(), false);
    for (std::size_t i = 0; i < states.size(); ++i) active[i] = is_floating(states[i].dtype());
    const Arrays found = eval_jaxpr(value_and_grad(total, active), in);  // loss, states, cotangents
    Arrays to_entry;
    std::size_t next = 1 + states.size();
    for (std::size_t i = 0; i < states.size(); ++i)
      to_entry.push_back(active[i] ? found[next++] : zeros_like(states[i]));
    const Arrays moved = regress(params, own, slots, slabs(states), slabs(to_entry), age);
    return joined({moved, ArraySpan(found).subspan(1, states.size())});
  }

  bool estimates_anything(ArraySpan params, ArraySpan states, ArraySpan own) const {
    return !estimates(params, own, slabs(states), Array(Tensor::full({Dtype::I32, {}}, std::int64_t{0})))
                .empty();
  }

  // The same at the end of the sequence: nothing comes later.
  Arrays end(ArraySpan params, ArraySpan states, ArraySpan own, ArraySpan slots, const Array& age) const {
    const Arrays at = slabs(states);
    Arrays targets;
    for (const Array& a : at) targets.push_back(zeros_like(a));
    return regress(params, own, slots, at, targets, age);
  }

 private:
  struct Ran {
    Array losses;
    Arrays states;
  };

  Ran run(ArraySpan params, ArraySpan states, ArraySpan slices) const {
    const Model& m = g_.module_info.model;
    const Arrays args = step_.arguments(slices);
    Arrays timed;
    for (std::size_t i = 0; i < args.size(); ++i)
      if (step_.multi_step[i]) timed.push_back(args[i]);
    const ScanBody one = [&](ArraySpan now, ArraySpan xs) -> ScanResult {
      Arrays in;
      std::size_t next_param = 0, next_state = 0;
      const auto argument = [&](std::size_t index) {
        std::size_t place = 0;
        for (std::size_t i = 0; i < index; ++i) place += step_.multi_step[i] ? 1 : 0;
        return step_.multi_step[index] ? xs[place] : args[index];
      };
      for (const InputRecord& r : m.inputs)
        in.push_back(r.role == Role::Arg     ? argument(static_cast<std::size_t>(r.index))
                     : r.role == Role::Param ? params[next_param++]
                                             : now[next_state++]);
      const Arrays out = eval_jaxpr(m.program, in);
      return {new_states_of(m, now, out), results_of(m, out)};
    };
    const ScanResult r = scan(one, Arrays(states.begin(), states.end()), timed, {.length = *step_.window});
    return {step_.loss(slices, r.ys).loss, r.carry};
  }

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
    w.params.assign(params.begin(), params.end());
    w.age = age;
    w.calls = age;
    return rule_.exit_estimate(w, memory, hidden);
  }

  // (error, own, optimiser's state) after one step towards the targets.
  Arrays regress(ArraySpan params, ArraySpan own, ArraySpan slots, ArraySpan at, ArraySpan targets,
                 const Array& age) const {
    const ScalarFunction error = [&](ArraySpan p) {
      const Arrays found =
          estimates(params, p, at, age - Array(Tensor::full({Dtype::I32, {}}, *step_.window)));
      Array total;
      for (std::size_t k = 0; k < found.size(); ++k) {
        const Array one = mean(square(found[k] - targets[k]));
        total = total.defined() ? total + convert(one, total.dtype()) : one;
      }
      return total;
    };
    std::vector<int> all;
    for (std::size_t i = 0; i < own.size(); ++i) all.push_back(static_cast<int>(i));
    const Arrays found = value_and_grad(error, all)(own);
    const optim::Updated next = optimizer_.apply(own, ArraySpan(found).subspan(1), slots);
    return joined({Arrays{found[0]}, next.params, next.state});
  }

  const ETraceGraph& g_;
  const BoundRule& rule_;
  const StepProgram& step_;
  const optim::Optimizer& optimizer_;
  std::vector<TraceSlot> slots_;
  std::vector<std::size_t> fitted_;
  std::vector<StatePath> paths_;  // of the states, in the order of the program's inputs
};

std::int64_t windows_of(ArraySpan sequences, std::int64_t chunk) {
  check_sequences(kFit, sequences);
  const std::int64_t steps = sequences[0].shape()[0];
  if (chunk < 1 || steps % chunk != 0)
    throw ValueError(kFit, fmt::format("chunk_size {} does not divide a sequence of {} steps", chunk, steps));
  return steps / chunk;
}

Array age_of(std::int64_t steps) { return Array(Tensor::full({Dtype::I32, {}}, steps)); }

}  // namespace

std::vector<double> train_synthetic_gradient(Learner& learner, ArraySpan sequences, const StepFunction& f,
                                             const SyntheticGradientOptions& o) {
  const std::int64_t windows = windows_of(sequences, o.chunk_size);
  if (o.epochs < 1) throw ValueError(kFit, fmt::format("epochs is {}; it must be at least 1", o.epochs));
  learner.impl_->rule->require(VjpMethod::MultiStep);
  if (o.reset) {
    learner.reset_state();
    learner.reset_model_state();
  }
  Learner::Impl& impl = *learner.impl_;
  const BoundRule& rule = impl.builder.rule();
  Avals slices;
  for (const Array& a : sequences) slices.push_back({a.dtype(), a.shape().without(0)});
  const auto objective =
      impl.objective(f, slices, o.chunk_size > 1 ? std::optional(o.chunk_size) : std::nullopt, {}).program;

  const optim::SGD plain(o.learning_rate);
  const optim::Optimizer& optimizer = o.optimizer != nullptr ? *o.optimizer : plain;
  const Fit fit(impl.graph, rule, *objective, optimizer);
  const Arrays params = impl.params_now();
  Arrays start, own;
  for (const KnownState& s : impl.states) start.push_back(impl.session.value(PortRole::State, s.name));
  for (const std::size_t i : fit.fitted())
    own.push_back(impl.session.value(impl.memory[i].role, impl.memory[i].name));
  if (own.empty() || !fit.estimates_anything(params, start, own))
    throw ValueError(
        kFit, fmt::format("{} has no estimate with parameters of its own; use DNI with a synthesizer that "
                          "has some",
                          impl.rule->name()));
  Arrays slots = optimizer.init(own);

  const auto sliced = [&](std::int64_t w) {
    Arrays out;
    for (const Array& a : sequences)
      out.push_back(slice_axis(a, 0, w * o.chunk_size, (w + 1) * o.chunk_size));
    return out;
  };
  const auto compiled = [](const Function& body, const Arrays& in) {
    return Executable(simplify(make_jaxpr(body, avals_of(in))));
  };
  const std::size_t np = params.size(), ns = start.size(), no = own.size(), nq = slots.size();
  const auto window_in = [&](const Arrays& states, std::int64_t w) {
    return joined({params, states, own, slots, Arrays{age_of(w * o.chunk_size)}, sliced(w)});
  };
  const Executable window = compiled(
      [&](ArraySpan a) {
        const ArraySpan p = take_front(a, np), s = take_front(a, ns), q = take_front(a, no),
                        z = take_front(a, nq);
        const Array age = take_front(a, 1)[0];
        return fit.window(p, s, a, q, z, age);
      },
      window_in(start, 0));
  const auto end_in = [&](const Arrays& states) {
    return joined({params, states, own, slots, Arrays{age_of(windows * o.chunk_size)}});
  };
  const Executable end = compiled(
      [&](ArraySpan a) {
        const ArraySpan p = take_front(a, np), s = take_front(a, ns), q = take_front(a, no),
                        z = take_front(a, nq);
        return fit.end(p, s, q, z, a[0]);
      },
      end_in(start));

  std::vector<double> errors;
  for (std::int64_t epoch = 0; epoch < o.epochs; ++epoch) {
    Arrays states = start;
    double sum = 0.0;
    const auto take = [&](const Tensors& out) {
      const Arrays all = to_arrays(out);
      ArraySpan left = all;
      sum += to_double(take_front(left, 1)[0].tensor().at(0));
      own = to_list(take_front(left, no));
      slots = to_list(take_front(left, nq));
      if (!left.empty()) states = to_list(left);
    };
    for (std::int64_t w = 0; w < windows; ++w) take(window(to_tensors(window_in(states, w))));
    take(end(to_tensors(end_in(states))));
    errors.push_back(sum / static_cast<double>(windows + 1));
    if (!std::isfinite(errors.back()))
      throw ValueError(kFit, "the error is not finite; a smaller learning rate may help");
  }
  for (std::size_t i = 0; i < no; ++i) {
    const TraceSlot& slot = impl.memory[fit.fitted()[i]];
    impl.session.set(slot.role, slot.name, own[i].tensor());
  }
  impl.fitted = Learner::Impl::FittedFor{objective->program, o.chunk_size};
  return errors;
}

}  // namespace etrace
