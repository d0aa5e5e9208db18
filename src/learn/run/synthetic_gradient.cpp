// The fit of a synthesizer; see the header. One program per window: its gradient, one step of the regression
// (learn/plan/fit_plan.cpp).
#include "etrace/synthetic_gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "etrace/error.h"
#include "learn/run/learner_impl.h"
#include "learn/run/online_run.h"
#include "learn/run/parts.h"

namespace etrace {

namespace {

constexpr const char* kFit = "train_synthetic_gradient";

std::int64_t windows_of(ArraySpan sequences, std::int64_t chunk) {
  check_sequences(kFit, sequences);
  const std::int64_t steps = sequences[0].shape()[0];
  if (chunk < 1 || steps % chunk != 0)
    throw ValueError(kFit, fmt::format("chunk_size {} does not divide a sequence of {} steps", chunk, steps));
  return steps / chunk;
}

// The learner's numbers that a fit reads, and those that it moves, in a session of its own: the learner's are
// as they were until it is done.
class FitRun {
 public:
  FitRun(Learner::Impl& learner, const StepProgram& step, std::span<const Aval> slices,
         const optim::Optimizer& optimizer)
      : learner_(learner),
        optimizer_(optimizer),
        session_(learner.backend.memory()),
        window_(bound(learner.builder.fit(step, slices, optimizer))),
        end_(bound(learner.builder.fit_end(step, optimizer))) {
    for (const Port& p : window_.program().arguments)
      if (p.role == PortRole::Hyperparameter) hyper_.push_back(0.0);
    for (Launch* l : {&window_, &end_}) {
      error_of(*l);
      std::size_t next = 0;
      for (std::size_t i = 0; i < l->program().arguments.size(); ++i)
        if (l->program().arguments[i].role == PortRole::Hyperparameter) l->give(i, &hyper_[next++]);
    }
  }

  // Back to the start of the sequence.
  void start() {
    for (const KnownState& s : learner_.states)
      session_.set(PortRole::State, s.name, learner_.session.value(PortRole::State, s.name));
    session_.set(PortRole::Counter, "age", Tensor::zeros({Dtype::I32, {}}));
  }
  double window(const Tensors& sequences, std::int64_t steps, std::int64_t begin) {
    for (std::size_t i = 0; i < sequences.size(); ++i)
      window_.give(window_.argument(PortRole::Slice, fmt::format("slice{}", i)),
                   sequences[i].bytes() + bytes_before(sequences[i].aval(), steps, begin));
    return run(window_);
  }
  double end() { return run(end_); }
  Tensor fitted(const std::string& name) { return session_.value(PortRole::RuleParam, name); }

 private:
  // Places for the ports: as the learner has them, or as the optimiser begins.
  Launch bound(Program recorded) {
    Program p = learner_.ready(std::move(recorded));
    if (!places_) add_places(p);
    places_ = true;
    std::shared_ptr<const Runnable> code = learner_.compile(p);
    return Launch(session_, std::move(p), std::move(code));
  }
  void add_places(const Program& p) {
    std::vector<ParamLeafId> leaves;
    Arrays own;
    for (const Port& port : p.arguments) {
      if (port.role != PortRole::RuleParam) continue;
      leaves.push_back({{port.name}, 0, ""});
      own.push_back(learner_.session.value(port.role, port.name));
    }
    const Arrays slots = optimizer_.init(own, leaves);
    std::size_t next_slot = 0;
    for (const Port& port : p.arguments) {
      if (port.role == PortRole::Slice || port.role == PortRole::Hyperparameter) continue;
      if (port.role == PortRole::OptimizerSlot)
        session_.add(port.role, port.name, slots[next_slot++].tensor());
      else
        session_.add(port.role, port.name, learner_.session.value(port.role, port.name));
    }
  }
  static Tensor error_of(Launch& l) { return l.keep(l.result(PortRole::Loss, "error")); }
  double run(Launch& l) {
    optimizer_.hyperparameters(session_.integer(PortRole::OptimizerSlot, "optimizer/step"), hyper_);
    l.run();
    return to_double(error_of(l).at(0));
  }

  Learner::Impl& learner_;
  const optim::Optimizer& optimizer_;
  Session session_;
  bool places_ = false;
  std::vector<double> hyper_;
  Launch window_, end_;
};

bool has_estimate(Learner::Impl& impl) {
  const BoundRule& rule = impl.builder.rule();
  if (std::none_of(impl.memory.begin(), impl.memory.end(),
                   [](const TraceSlot& s) { return s.role == PortRole::RuleParam; }))
    return false;
  WindowData w;
  w.steps = 1;
  w.params = impl.params_now();
  w.age = w.calls = zeros_of({Dtype::I32, {}});
  Arrays hidden, memory;
  for (const HiddenGroup& g : impl.graph.hidden_groups) {
    Dims dims = g.varshape().to_dims();
    dims.push_back(g.num_state());
    hidden.push_back(zeros_of({g.hidden_states.front().invar.aval.dtype, Shape(dims)}));
  }
  for (const TraceSlot& s : rule.slots()) memory.push_back(zeros_of(s.aval));
  return !rule.exit_estimate(w, memory, hidden).empty();
}

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
  Avals slices;
  for (const Array& a : sequences) slices.push_back({a.dtype(), a.shape().without(0)});
  const auto objective =
      impl.objective(f, slices, o.chunk_size > 1 ? std::optional(o.chunk_size) : std::nullopt, {}).program;
  if (!has_estimate(impl))
    throw ValueError(
        kFit, fmt::format("{} has no estimate with parameters of its own; use DNI with a synthesizer that "
                          "has some",
                          impl.rule->name()));

  const optim::SGD plain(o.learning_rate);
  FitRun fit(impl, *objective, slices, o.optimizer != nullptr ? *o.optimizer : plain);
  Tensors data;
  for (const Array& a : sequences) data.push_back(a.tensor());
  std::vector<double> errors;
  for (std::int64_t epoch = 0; epoch < o.epochs; ++epoch) {
    fit.start();
    double sum = 0.0;
    for (std::int64_t w = 0; w < windows; ++w)
      sum += fit.window(data, windows * o.chunk_size, w * o.chunk_size);
    sum += fit.end();
    errors.push_back(sum / static_cast<double>(windows + 1));
    if (!std::isfinite(errors.back()))
      throw ValueError(kFit, "the error is not finite; a smaller learning rate may help");
  }
  for (const TraceSlot& slot : impl.memory)
    if (slot.role == PortRole::RuleParam) impl.session.set(slot.role, slot.name, fit.fitted(slot.name));
  impl.fitted = Learner::Impl::FittedFor{*objective, o.chunk_size};
  return errors;
}

}  // namespace etrace
