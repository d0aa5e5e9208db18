#include "optim/update_run.h"

#include <algorithm>

#include "core/make_program.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "ops/all_finite.h"

namespace etrace::optim {

// (params, slots, hyperparameters, gradients of the leaves that are not skipped) -> (params, slots): all of
// them, or, unless all that is new is finite, none.
Program Optimizer::update_of(const std::vector<bool>& skipped) const {
  std::vector<Port> params, gradients;
  std::size_t next = 0;
  for (const auto& state : params_)
    for (const Aval& type : state->avals()) {
      params.push_back({plans_[next].name, PortRole::Param, type});
      if (!skipped[next]) gradients.push_back({plans_[next].name, PortRole::Gradient, type});
      ++next;
    }
  const OptimizerPorts own(*this, leaves_, params);
  const std::vector<Port> ports = joined_ports({params, own.slots, own.hyper, gradients});
  Program out = make_program("update", ports, [&](ArraySpan in, Results& results) {
    const ArraySpan p = in.first(params.size()), s = in.subspan(params.size(), own.slots.size()),
                    h = in.subspan(params.size() + own.slots.size(), own.hyper.size()),
                    g = in.last(gradients.size());
    Arrays given(params.size());
    for (std::size_t i = 0, k = 0; i < given.size(); ++i)
      if (!skipped[i]) given[i] = g[k++];
    Updated next_values = apply_planned(plans_, p, given, s, skipped, h);
    Arrays moving = next_values.state;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (!skipped[i]) moving.push_back(next_values.params[i]);
    const Array finite = all_finite(moving);
    const auto choose = [&](Arrays& list, ArraySpan old) {
      for (std::size_t i = 0; i < list.size(); ++i) list[i] = select_n(finite, Arrays{old[i], list[i]});
    };
    choose(next_values.params, p);
    choose(next_values.state, s);
    results.replace(0, next_values.params);
    results.replace(params.size(), next_values.state);
    results.add(kFinitePort, PortRole::Finite, finite);
  });
  out.jaxpr = simplify(std::move(out.jaxpr)).to_run();
  return out;
}

Optimizer::Runs::Runs(const Optimizer& optimizer)
    : optimizer_(optimizer), backend_(find_backend(default_backend())), session_(backend_.memory()) {
  std::size_t next = 0;
  for (const std::shared_ptr<State>& state : optimizer.params())
    for (std::size_t leaf = 0; leaf < state->avals().size(); ++leaf, ++next) {
      const std::string name = to_string(optimizer.leaves()[next]);
      session_.add(PortRole::Param, name, state->leaf(leaf).get().tensor());
      session_.attach(PortRole::Param, name, state, state->leaf(leaf));
    }
  use_slots(session_, optimizer, optimizer.leaves());
  hyper_.resize(optimizer.hyperparameters(0).size());
}

Optimizer::Runs::Bound& Optimizer::Runs::bound(const std::vector<bool>& skipped) {
  for (auto it = bound_.begin(); it != bound_.end(); ++it)
    if (it->skipped == skipped) {
      bound_.splice(bound_.begin(), bound_, it);
      return bound_.front();
    }
  constexpr std::size_t kRemembered = 16;
  Program p = optimizer_.update_of(skipped);
  std::shared_ptr<const Runnable> code = backend_.compile(p);
  if (bound_.size() == kRemembered) bound_.pop_back();
  bound_.push_front({skipped, Launch(session_, std::move(p), std::move(code)), {}});
  Bound& b = bound_.front();
  const std::vector<Port>& ports = b.launch.program().arguments;
  std::size_t rate = 0;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].role == PortRole::Hyperparameter) b.launch.give(i, &hyper_[rate++]);
    if (ports[i].role == PortRole::Gradient) b.gradients.push_back(i);
  }
  return b;
}

bool Optimizer::Runs::operator()(const std::vector<bool>& skipped, ArraySpan gradients) {
  Bound& b = bound(skipped);
  Tensors kept;
  for (std::size_t i = 0, k = 0; i < gradients.size(); ++i) {
    if (skipped[i]) continue;
    const std::size_t at = b.gradients[k++];
    const Aval& type = b.launch.program().arguments[at].aval;
    kept.push_back(convert(instantiate(gradients[i], type), type.dtype).tensor());
    b.launch.give(at, kept.back().bytes());
  }
  optimizer_.hyperparameters(session_.integer(PortRole::OptimizerSlot, "optimizer/step"), hyper_);
  return b.launch.run();
}

}  // namespace etrace::optim
