#include "learn/host_step.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "etrace/error.h"
#include "learn/interface.h"

namespace etrace {

namespace {

void copy_into(Tensor& to, const Tensor& from) {
  if (!to.defined())
    to = Tensor::copy_of(from.aval(), from.bytes());
  else
    std::memcpy(to.writable(), from.bytes(), from.aval().bytes());
}

}  // namespace

HostStep::HostStep(Learner::Impl& learner, const Loss& loss, optim::Optimizer* optimizer)
    : learner_(learner), loss_(loss), optimizer_(optimizer) {
  params_.resize(learner.params.size());
  states_.resize(learner.states.size());
  if (optimizer != nullptr) hyper_.resize(optimizer->hyperparameters(0).size());
}

void HostStep::take_over() {
  if (live_) return;
  for (std::size_t i = 0; i < params_.size(); ++i) copy_into(params_[i], learner_.params[i].get());
  for (std::size_t i = 0; i < states_.size(); ++i) copy_into(states_[i], learner_.states[i].get());
  for (Tensor& m : learner_.memory)
    if (!m.unique()) m = Tensor::copy_of(m.aval(), m.bytes());
  if (optimizer_ != nullptr) {
    const std::vector<ParamLeafId> leaves = param_leaf_ids(learner_.graph.module_info);
    const std::vector<std::string> names = optimizer_->state_names(leaves);
    const auto entries = optimizer_->state();
    slots_.resize(names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      for (const auto& [name, value] : entries)
        if (name == names[i]) copy_into(slots_[i], value);
  }
  // Traces may have moved since.
  if (evolving_) evolving_ = bind(evolving_->loaded);
  if (learning_) learning_ = bind(learning_->loaded);
  live_ = true;
}

HostStep::Bound HostStep::bind(const Loaded& loaded) {
  Bound b{loaded, {}, {}, {}, {}};
  const Program& p = loaded.program;
  std::size_t param = 0, state = 0, slot = 0, memory = 0, hyper = 0;
  for (std::size_t i = 0; i < p.arguments.size(); ++i) switch (p.arguments[i].role) {
      case PortRole::Param:
        b.in.push_back(params_[param++].bytes());
        break;
      case PortRole::State:
        b.in.push_back(states_[state++].bytes());
        break;
      case PortRole::OptimizerSlot:
        b.in.push_back(slots_[slot++].bytes());
        break;
      case PortRole::Hyperparameter:
        b.in.push_back(&hyper_[hyper++]);
        break;
      case PortRole::Signal:
        b.in.push_back(modulator_.bytes());
        break;
      case PortRole::Arg:
      case PortRole::Slice:
        b.data.push_back(i);
        b.in.push_back(nullptr);
        break;
      default:
        b.in.push_back(learner_.memory[memory++].bytes());
    }
  b.out.resize(p.results.size());
  for (const Alias& a : p.aliases) b.out[a.result] = const_cast<void*>(b.in[a.argument]);
  for (std::size_t i = 0; i < b.out.size(); ++i)
    if (b.out[i] == nullptr) b.out[i] = b.results.emplace_back(Tensor::zeros(p.results[i].aval)).writable();
  return b;
}

void HostStep::set_data(Bound& b, ArraySpan args, const Array* target) {
  const std::size_t count = args.size() + (target != nullptr ? 1 : 0);
  if (count != b.data.size())
    throw ValueError("step", fmt::format("{} arguments, but the model takes {}", args.size(),
                                         b.data.size() - (target != nullptr ? 1 : 0)));
  kept_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Array& given = i < args.size() ? args[i] : *target;
    const Port& port = b.loaded.program.arguments[b.data[i]];
    if (given.aval() != port.aval)
      throw ValueError(
          "step", fmt::format("{} has type {}, expected {}", i < args.size() ? "an argument" : "the target",
                              to_string(given.aval()), to_string(port.aval)));
    kept_[i] = given.tensor();
    b.in[b.data[i]] = kept_[i].bytes();
  }
}

const Learner::StepResult& HostStep::evolve(ArraySpan args) {
  take_over();
  if (!evolving_) {
    evolving_ = bind(learner_.program("evolve", [&] { return learner_.builder.evolve({}); }));
    evolved_ = {std::numeric_limits<double>::quiet_NaN(), to_arrays(evolving_->results), {}};
  }
  set_data(*evolving_, args, nullptr);
  evolving_->loaded.code->run(evolving_->in.data(), evolving_->out.data());
  return evolved_;
}

void HostStep::bind_learning(const Array& target) {
  if (!loss_) throw ValueError("step", "a target was given, but no loss; call bind_step(loss) first");
  target_ = target.aval();
  Avals slices = argument_types(learner_.graph);
  slices.push_back(target_);
  const std::size_t num_args = slices.size() - 1;
  const StepFunction f = [this, num_args](StepCall& model, ArraySpan s) {
    const std::vector<StepInput> inputs(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(num_args));
    const Arrays out = model(inputs);
    return LossAndAux{loss_(out[0], s.back()), out};
  };
  SequenceForm form;
  if (modulator_.defined()) form.modulator = modulator_.aval();
  const Objective objective = learner_.builder.objective(f, slices, form);
  Program program =
      learner_.ready(optimizer_ != nullptr ? learner_.builder.train(objective, slices, form, *optimizer_, 1)
                                           : learner_.builder.gradient(objective, slices, form));
  std::shared_ptr<const Runnable> code = learner_.backend.compile(program);
  learning_ = bind({std::move(program), std::move(code)});
  const std::size_t outputs = result_types(learner_.graph).size();
  const Arrays all = to_arrays(learning_->results);  // the loss, the results, then gradients
  learned_.results.assign(all.begin() + 1, all.begin() + 1 + static_cast<std::ptrdiff_t>(outputs));
  if (optimizer_ == nullptr)
    learned_.grads = {param_leaf_ids(learner_.graph.module_info),
                      Arrays(all.begin() + 1 + static_cast<std::ptrdiff_t>(outputs), all.end())};
}

// The third factor of this step. One of another type needs another program.
void HostStep::take_modulator(const Array& target) {
  if (!learner_.rule->takes_modulator()) return;
  if (!learner_.modulator.defined())
    throw ValueError("step",
                     fmt::format("{} needs a modulator: set one with set_modulator", learner_.rule->name()));
  const Tensor given = learner_.modulator.tensor();
  const bool other = !modulator_.defined() || modulator_.aval() != given.aval();
  if (other) modulator_ = Tensor();
  copy_into(modulator_, given);
  if (other) bind_learning(target);
}

const Learner::StepResult& HostStep::learn(ArraySpan args, const Array& target) {
  take_over();
  take_modulator(target);
  if (!learning_) bind_learning(target);
  set_data(*learning_, args, &target);
  if (optimizer_ != nullptr) optimizer_->hyperparameters(to_int(slots_[0].at(0)), hyper_);
  learning_->loaded.code->run(learning_->in.data(), learning_->out.data());
  learned_.loss = to_double(learning_->results[0].at(0));
  return learned_;
}

void HostStep::give_back(bool with_optimizer) {
  if (!live_) return;
  live_ = false;
  const auto copied = [](const Tensor& t) { return Tensor::copy_of(t.aval(), t.bytes()); };
  for (std::size_t i = 0; i < states_.size(); ++i) learner_.states[i].set(copied(states_[i]));
  if (optimizer_ == nullptr) return;
  for (std::size_t i = 0; i < params_.size(); ++i) learner_.params[i].set(copied(params_[i]));
  if (!with_optimizer) return;
  const std::vector<std::string> names = optimizer_->state_names(param_leaf_ids(learner_.graph.module_info));
  auto entries = optimizer_->state();
  for (std::size_t i = 0; i < names.size(); ++i)
    for (auto& [name, value] : entries)
      if (name == names[i]) value = copied(slots_[i]);
  optimizer_->set_state(entries);
}

// The learner's side ----------------------------------------------------------------------------------------
void Learner::bind_step(const Loss& loss, optim::Optimizer* optimizer) {
  Impl& own = impl();
  if (optimizer != nullptr) require_same_parameters("bind_step", *optimizer, own.params);
  own.host = std::make_unique<HostStep>(own, loss, optimizer);
}

const Learner::StepResult& Learner::step(ArraySpan args) {
  if (impl_->host == nullptr) impl_->host = std::make_unique<HostStep>(*impl_, Loss{}, nullptr);
  return impl_->host->evolve(args);
}

const Learner::StepResult& Learner::step(ArraySpan args, const Array& target) {
  if (impl_->host == nullptr)
    throw ValueError("step", "a target was given, but no loss; call bind_step(loss) first");
  return impl_->host->learn(args, target);
}

void Learner::sync() { impl(); }

}  // namespace etrace
