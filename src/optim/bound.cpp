// An optimiser on a model: reads parameters, applies the pure update, writes them back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/finite.h"
#include "etrace/error.h"
#include "etrace/optim.h"
#include "module/stateful_trace.h"
#include "optim/update_run.h"

namespace etrace::optim {

namespace {

constexpr const char* kBoundStage = "optim";

Arrays values_of(std::span<const std::shared_ptr<State>> states) {
  Arrays out;
  for (const auto& state : states) {
    const Arrays leaves = state->leaves();
    out.insert(out.end(), leaves.begin(), leaves.end());
  }
  return out;
}

[[noreturn]] void refuse_recording() {
  throw TypeError(kBoundStage,
                  "update() met a traced value: it changes a model and cannot be recorded; use init() and "
                  "apply(), which are pure");
}
void require_concrete(ArraySpan values) {
  if (std::any_of(values.begin(), values.end(), [](const Array& a) { return a.is_tracer(); }))
    refuse_recording();
}

// What is no number would poison the model without a word. `what`: "gradient", "update".
void require_finite(const char* what, const std::string& name, const Array& values) {
  if (!values.defined() || !is_floating(values.dtype())) return;
  if (const auto v = values.splat(); v ? std::isfinite(to_double(*v)) : all_finite(values.tensor())) return;
  for (const double v : values.tensor().to_doubles())
    if (!std::isfinite(v))
      throw ValueError(kBoundStage,
                       fmt::format("the {} of {} holds {}; nothing was changed. Look for inputs that "
                                   "are not finite, or lower the learning rate, or clip (clip_norm)",
                                   what, name, unsigned_nan(v)));
}

bool same_leaf(const ParamLeafId& a, const ParamLeafId& b) { return a.path == b.path && a.leaf == b.leaf; }

}  // namespace

void Optimizer::bind(Module& model) {
  std::vector<ParamLeafId> leaves = param_leaf_ids(model);
  std::vector<std::shared_ptr<State>> params;
  for (const StateEntry& e : states(model, StateKind::Param)) params.push_back(e.state->shared_from_this());
  const Arrays values = values_of(params);
  require_concrete(values);
  Plans plans = plan(leaves);
  auto fresh = std::make_shared<std::vector<VersionedArray>>();
  for (Array& a : init_planned(plans, values)) fresh->emplace_back(std::move(a));
  state_ = std::move(fresh);
  leaves_ = std::move(leaves);
  plans_ = std::move(plans);
  params_ = std::move(params);
  program_ = nullptr;
  runs_ = nullptr;
}

std::shared_ptr<const ClosedJaxpr> Optimizer::update_program() const {
  require_bound("update_program()");
  if (program_ != nullptr) return program_;
  const Arrays values = values_of(params_);
  const std::size_t np = values.size(), no = state_->size(), nh = hyperparameter_list().size();
  Avals types = avals_of(values);
  types.insert(types.end(), types.begin(), types.begin() + static_cast<std::ptrdiff_t>(np));
  for (const VersionedArray& a : *state_) types.push_back(a.aval());
  types.insert(types.end(), nh, Aval{Dtype::F64, {}});
  program_ = std::make_shared<const ClosedJaxpr>(make_jaxpr(
      [&](ArraySpan in) {
        Updated u = apply_planned(plans_, in.first(np), in.subspan(np, np), in.subspan(2 * np, no),
                                  std::vector<bool>(np, false), in.subspan(2 * np + no));
        u.params.insert(u.params.end(), u.state.begin(), u.state.end());
        return u.params;
      },
      types));
  return program_;
}

void Optimizer::require_bound(std::string_view what) const {
  if (!bound())
    throw ValueError(kBoundStage,
                     fmt::format("{} of {}, which is bound to no model; call bind(model) or construct "
                                 "it with one",
                                 what, name()));
}

// Gradients mostly come in the order of the leaves: the hint saves a search.
std::size_t Optimizer::leaf_position(const ParamLeafId& id, std::size_t hint) const {
  if (hint < leaves_.size() && same_leaf(leaves_[hint], id)) return hint;
  const auto it = std::find_if(leaves_.begin(), leaves_.end(),
                               [&](const ParamLeafId& leaf) { return same_leaf(leaf, id); });
  if (it != leaves_.end()) return static_cast<std::size_t>(it - leaves_.begin());
  std::string known;
  for (const LeafPlan& p : plans_) known += (known.empty() ? "" : ", ") + p.name;
  throw ValueError(kBoundStage, fmt::format("a gradient for {}, which the model does not have; it has: {}",
                                            to_string(id), known));
}

void Optimizer::update(const ParamValues& grads) {
  require_bound("update()");
  if (grads.leaves.size() != grads.values.size())
    throw ValueError(kBoundStage, fmt::format("{} gradients for {} leaves; expected one each",
                                              grads.values.size(), grads.leaves.size()));
  Arrays ordered(leaves_.size());
  std::vector<bool> skipped(leaves_.size(), true);
  for (std::size_t i = 0; i < grads.leaves.size(); ++i) {
    const std::size_t at = leaf_position(grads.leaves[i], i);
    if (!skipped[at])
      throw ValueError(kBoundStage, fmt::format("two gradients for {}; add them first", plans_[at].name));
    ordered[at] = grads.values[i];
    skipped[at] = false;
  }

  if (StatefulTrace::active() != nullptr) refuse_recording();
  require_concrete(ordered);
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    skipped[i] = skipped[i] || plans_[i].frozen;
    require_finite("gradient", plans_[i].name, ordered[i]);
  }
  check_gradients(ordered, skipped);
  if (runs_ == nullptr) runs_ = std::make_unique<Runs>(*this);
  if ((*runs_)(skipped, ordered)) return;
  // Nothing was changed. Which leaf it is, the same update says once more, by itself.
  const Updated after = apply_planned(plans_, values_of(params_), ordered, state_now(), skipped, {});
  for (std::size_t i = 0; i < ordered.size(); ++i)
    if (!skipped[i]) require_finite("update", plans_[i].name, after.params[i]);
  const std::vector<std::string> slots = state_names(leaves_);
  for (std::size_t i = 0; i < slots.size(); ++i) require_finite("new value", slots[i], after.state[i]);
  internal_error("an update that is not finite has a leaf that is not", __FILE__, __LINE__);
}

Arrays Optimizer::state_now() const {
  Arrays out;
  for (const VersionedArray& a : *state_) out.push_back(a.get());
  return out;
}

std::int64_t Optimizer::step() const {
  require_bound("step()");
  return state_->front().get().item<std::int64_t>();
}

double Optimizer::learning_rate() const { return rate_.at(step()); }

void Optimizer::set_learning_rate(Schedule rate) {
  rate.at(bound() ? step() : 0);  // ValueError for one that is none
  rate_ = std::move(rate);
}

void Optimizer::set_learning_rate(std::string_view group, Schedule rate) {
  std::string known;
  for (ParamGroup& g : common_.groups) {
    if (g.leaf == group && g.learning_rate) {
      rate.at(bound() ? step() : 0);
      g.learning_rate = std::move(rate);
      return;
    }
    if (g.learning_rate) known += (known.empty() ? "" : ", ") + g.leaf;
  }
  throw ValueError(
      kBoundStage,
      fmt::format("there is no parameter group '{}' with a learning rate of its own; there are: {}", group,
                  known.empty() ? "none" : known));
}

std::vector<std::pair<std::string, Tensor>> Optimizer::state() const {
  require_bound("state()");
  const std::vector<std::string> names = state_names(leaves_);
  std::vector<std::pair<std::string, Tensor>> out;
  for (std::size_t i = 0; i < names.size(); ++i) out.emplace_back(names[i], (*state_)[i].get().tensor());
  return out;
}

void Optimizer::set_state(std::span<const std::pair<std::string, Tensor>> entries) {
  require_bound("set_state()");
  const std::vector<std::string> names = state_names(leaves_);
  Arrays found(names.size());
  std::string differences;
  const auto differs = [&](const std::string& text) {
    differences += (differences.empty() ? "" : "; ") + text;
  };
  for (const auto& entry : entries) {
    const auto it = std::find(names.begin(), names.end(), entry.first);
    const auto at = static_cast<std::size_t>(it - names.begin());
    if (it == names.end())
      differs(entry.first + " is unknown");
    else if (found[at].defined())
      differs(entry.first + " is given twice");
    else if (!entry.second.defined() || entry.second.aval() != (*state_)[at].aval())
      differs(fmt::format("{} is {}, expected {}", entry.first,
                          entry.second.defined() ? to_string(entry.second.aval()) : "undefined",
                          to_string((*state_)[at].aval())));
    if (at < names.size() && entry.second.defined()) found[at] = entry.second;
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!found[i].defined()) differs(names[i] + " is missing");
  if (differences.empty() && found[0].item<std::int64_t>() < 0) differs("step is negative");
  if (!differences.empty())
    throw ValueError(kBoundStage,
                     fmt::format("the state does not fit this {}: {}; restore it into the optimiser and "
                                 "model it was saved from",
                                 name(), differences));
  for (std::size_t i = 0; i < names.size(); ++i) (*state_)[i].set(found[i]);
}

}  // namespace etrace::optim
