#include "learn/run/host_step.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/finite.h"
#include "etrace/error.h"
#include "learn/plan/misfit.h"
#include "learn/traces/interface.h"
#include "optim/slots.h"

namespace etrace {

namespace {

// No number was computed: NaN, and no gradient.
Learner::StepResult of_no_step(const Learner::StepResult& like) {
  Learner::StepResult out{std::numeric_limits<double>::quiet_NaN(), {}, {like.grads.leaves, {}}};
  const Scalar none = std::numeric_limits<double>::quiet_NaN(), zero = 0.0;
  for (const Array& a : like.results)
    out.results.emplace_back(Tensor::full(a.aval(), is_floating(a.dtype()) ? none : zero));
  for (const Array& a : like.grads.values) out.grads.values.emplace_back(Tensor::zeros(a.aval()));
  return out;
}

}  // namespace

HostStep::HostStep(Learner::Impl& learner, const Loss& loss, optim::Optimizer* optimizer)
    : learner_(learner), loss_(loss), optimizer_(optimizer) {
  if (optimizer != nullptr) hyper_.resize(optimizer->hyperparameters(0).size());
}

void HostStep::prepare_evolving() {
  if (evolving_) return;
  Program program = learner_.ready(learner_.builder.evolve({}));
  std::shared_ptr<const Runnable> code = learner_.compile(program);
  Bound b{Launch(learner_.session, std::move(program), std::move(code)), {}, {}, {}};
  for (std::size_t i = 0; i < argument_types(learner_.graph).size(); ++i)
    b.data.push_back(b.launch.argument(PortRole::Arg, fmt::format("arg{}", i)));
  for (std::size_t i = 0; i < result_types(learner_.graph).size(); ++i)
    b.result.results.push_back(b.launch.keep(b.launch.result(PortRole::Result, fmt::format("result{}", i))));
  b.result.loss = std::numeric_limits<double>::quiet_NaN();
  b.launch.prepare();
  if (learner_.options.not_finite == NotFinite::Skip) b.left_out = of_no_step(b.result);
  evolving_.emplace(std::move(b));
}

void HostStep::prepare_learning(const Aval& target) {
  if (!loss_) throw ValueError("step", "a target was given, but no loss; call bind_step(loss) first");
  take_modulator();
  if (learning_) return;
  Avals slices = argument_types(learner_.graph);
  slices.push_back(target);
  const std::size_t num_args = slices.size() - 1;
  const StepFunction f = [this, num_args](StepCall& model, ArraySpan s) {
    const std::vector<StepInput> inputs(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(num_args));
    const Arrays out = model(inputs);
    return LossAndAux{loss_(out, s.back()), out};
  };
  WindowForm form;
  if (modulator_.defined()) form.modulator = modulator_.aval();
  form.modulator_by_group = modulator_by_group_;
  const StepProgram objective = learner_.builder.objective(f, slices);
  Program program =
      learner_.ready(optimizer_ != nullptr ? learner_.builder.train(objective, slices, form, *optimizer_)
                                           : learner_.builder.gradient(objective, slices, form));
  std::shared_ptr<const Runnable> code = learner_.compile(program);
  Bound b{Launch(learner_.session, std::move(program), std::move(code)), {}, {}, {}};
  Launch& l = b.launch;
  for (std::size_t i = 0; i < slices.size(); ++i)
    b.data.push_back(l.argument(PortRole::Slice, fmt::format("slice{}", i)));
  b.loss = l.keep(l.result(PortRole::Loss, "losses"));
  b.labels = std::make_shared<const LabelCheck>(objective);
  given_.resize(slices.size());
  for (std::size_t i = 0; i < result_types(learner_.graph).size(); ++i)
    b.result.results.push_back(l.keep(l.result(PortRole::Aux, fmt::format("aux{}", i))));
  if (modulator_.defined()) l.give(l.argument(PortRole::Signal, "modulator"), modulator_.bytes());
  if (optimizer_ != nullptr) {
    const std::vector<std::string> names = optimizer_->hyperparameter_names(learner_.params);
    for (std::size_t i = 0; i < names.size(); ++i)
      l.give(l.argument(PortRole::Hyperparameter, fmt::format("{}/{}", optimizer_->name(), names[i])),
             &hyper_[i]);
  } else {
    b.result.grads.leaves = learner_.params;
    for (const ParamLeafId& p : learner_.params)
      b.result.grads.values.push_back(l.keep(l.result(PortRole::Gradient, learner_.param_name(p))));
  }
  if (optimizer_ != nullptr) optim::use_slots(learner_.session, *optimizer_, learner_.params);
  l.prepare();
  kept_.reserve(slices.size());
  if (learner_.options.not_finite == NotFinite::Skip) b.left_out = of_no_step(b.result);
  learning_.emplace(std::move(b));
}

bool HostStep::set_data(Bound& b, ArraySpan args, const Array* target) {
  const std::size_t count = args.size() + (target != nullptr ? 1 : 0);
  if (count != b.data.size())
    throw ValueError("step", fmt::format("{} arguments, but the model takes {}", args.size(),
                                         b.data.size() - (target != nullptr ? 1 : 0)));
  kept_.resize(count);
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    const Array& given = i < args.size() ? args[i] : *target;
    const Port& port = b.launch.program().arguments[b.data[i]];
    if (given.aval() != port.aval)
      throw ValueError("step", fmt::format("{} {}", i < args.size() ? "an argument" : "the target",
                                           misfit(given.aval(), port.aval)));
    kept_[i] = given.tensor();
    if (all_finite(kept_[i])) {
      b.launch.give(b.data[i], kept_[i].bytes());
      continue;
    }
    if (learner_.options.not_finite == NotFinite::Error)
      require_finite("step", i < args.size() ? fmt::format("argument {}", i) : "the target", kept_[i]);
    finite = false;
  }
  if (!finite || b.labels == nullptr || b.labels->empty()) return finite;
  std::copy(args.begin(), args.end(), given_.begin());
  given_.back() = *target;
  b.labels->step("step", given_);
  return true;
}

const Learner::StepResult& HostStep::leave_out(Bound& b) {
  ++learner_.skipped;
  return b.left_out;
}

void HostStep::run(Bound& b) {
  const bool finite = b.launch.run();
  if (finite && !b.launch.left_some()) return;
  const std::string step = fmt::format("step {}", learner_.counter("age") - (finite ? 1 : 0));
  finite ? learner_.say_left_out("step", step) : learner_.say_not_finite("step", step);
}

const Learner::StepResult& HostStep::evolve(ArraySpan args) {
  prepare_evolving();
  if (!set_data(*evolving_, args, nullptr)) return leave_out(*evolving_);
  run(*evolving_);
  return evolving_->result;
}

// The third factor of this step. One of another type needs another program.
void HostStep::take_modulator() {
  if (!learner_.rule->takes_modulator()) return;
  if (!learner_.modulator.defined())
    throw ValueError("step",
                     fmt::format("{} needs a modulator: set one with set_modulator", learner_.rule->name()));
  const Tensor given = learner_.modulator.tensor();
  if (modulator_.defined() && modulator_.aval() == given.aval() &&
      modulator_by_group_ == learner_.modulator_by_group) {
    std::memcpy(modulator_.writable(), given.bytes(), given.aval().bytes());
    return;
  }
  modulator_ = Tensor::copy_of(given.aval(), given.bytes());
  modulator_by_group_ = learner_.modulator_by_group;
  learning_.reset();
}

const Learner::StepResult& HostStep::learn(ArraySpan args, const Array& target) {
  prepare_learning(target.aval());
  Bound& b = *learning_;
  if (!set_data(b, args, &target)) return leave_out(b);
  if (optimizer_ != nullptr) {
    optim::use_slots(learner_.session, *optimizer_, learner_.params);
    optimizer_->hyperparameters(learner_.session.integer(PortRole::OptimizerSlot, "optimizer/step"), hyper_);
  }
  run(b);
  b.result.loss = to_double(b.loss.at(0));
  return b.result;
}

// The learner's side ----------------------------------------------------------------------------------------
void Learner::bind_step(const Loss& loss, optim::Optimizer* optimizer) {
  if (optimizer != nullptr) require_same_parameters("bind_step", *optimizer, impl_->param_states);
  impl_->host = std::make_unique<HostStep>(*impl_, loss, optimizer);
}

void Learner::prepare() {
  if (impl_->host == nullptr) impl_->host = std::make_unique<HostStep>(*impl_, Loss{}, nullptr);
  impl_->host->prepare_evolving();
}

void Learner::prepare(const Aval& target) {
  prepare();
  impl_->host->prepare_learning(target);
}

const Learner::StepResult& Learner::step(ArraySpan args) {
  prepare();
  return impl_->host->evolve(args);
}

const Learner::StepResult& Learner::step(ArraySpan args, const Array& target) {
  if (impl_->host == nullptr)
    throw ValueError("step", "a target was given, but no loss; call bind_step(loss) first");
  return impl_->host->learn(args, target);
}

void Learner::sync() { impl_->session.bring_back(); }

}  // namespace etrace
