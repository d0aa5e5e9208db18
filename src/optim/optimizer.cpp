// The frame that all rules share, as a pure function of parameters, gradients and state. The order of one
// update is at the head of etrace/optim.h. What an optimiser does on a model is in bound.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "optim/check.h"
#include "optim/constraint.h"
#include "optim/update_run.h"

namespace etrace::optim {

namespace {

constexpr const char* kStage = "optim";

// The type a leaf is updated in; 16 bits would lose small steps.
Dtype work_type(Dtype dtype) { return promote(dtype, Dtype::F32); }

// "rnn" covers rnn/W.weight but not rnn2/W.
bool covers(std::string_view name, std::string_view leaf) {
  if (name.empty() || !leaf.starts_with(name)) return false;
  return leaf.size() == name.size() || leaf[name.size()] == '/' || leaf[name.size()] == '.';
}

std::vector<ParamLeafId> numbered_leaves(std::size_t n) {
  std::vector<ParamLeafId> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back({{static_cast<std::int64_t>(i)}, 0, ""});
  return out;
}

void require_count(std::string_view what, std::size_t found, std::size_t expected) {
  if (found != expected) throw ValueError(kStage, fmt::format("{} {}; expected {}", found, what, expected));
}

void require_type(std::string_view what, const std::string& name, const Array& value, const Aval& type) {
  const std::string text =
      fmt::format("{} {} is {}; expected {}", what, name, to_string(value.aval()), to_string(type));
  if (value.shape() != type.shape) throw ValueError(kStage, text);
  if (value.dtype() != type.dtype && !value.is_weak()) throw TypeError(kStage, text);
}

void require_trainable(const std::string& name, const Aval& param) {
  if (!is_floating(param.dtype))
    throw TypeError(kStage,
                    fmt::format("parameter {} is {}; only floating parameters can be trained, list it "
                                "in `frozen`",
                                name, to_string(param)));
}

// g·min(1, limit/(|g| + 1e-6)), |g| the Euclidean norm of all defined gradients of `members` together.
void clip_by_norm(Arrays& grads, const std::vector<bool>& members, const Array& limit, Dtype dtype) {
  Array squares;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const Array& g = grads[i];
    if (!g.defined() || !members[i]) continue;
    const Array own = convert(sum(square(g)), dtype);
    squares = squares.defined() ? squares + own : own;
  }
  if (!squares.defined()) return;
  const Array factor = minimum(limit / (sqrt(squares) + 1e-6), 1.0);
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined() && members[i]) grads[i] = grads[i] * convert(factor, grads[i].dtype());
}

Array next_count(const Array& count) {
  return minimum(count, std::numeric_limits<std::int32_t>::max() - 1) + 1;
}

}  // namespace

Optimizer::Optimizer(Schedule rate, CommonOptions common, Decay form, double default_decay)
    : rate_(std::move(rate)),
      common_(std::move(common)),
      decay_form_(form),
      decay_(common_.weight_decay.value_or(default_decay)) {
  rate_.at(0);  // ValueError for a formula that gives none
  require_not_negative(kStage, "weight_decay", decay_);
  if (common_.clip_norm) require_positive(kStage, "clip_norm", *common_.clip_norm);
  if (common_.clip_value) require_positive(kStage, "clip_value", *common_.clip_value);
  for (const ParamGroup& g : common_.groups) {
    if (g.learning_rate) g.learning_rate->at(0);
    if (g.weight_decay) require_not_negative(kStage, "weight_decay of " + g.leaf, *g.weight_decay);
    if (g.clip_norm) require_positive(kStage, "clip_norm of " + g.leaf, *g.clip_norm);
    if (g.clip_value) require_positive(kStage, "clip_value of " + g.leaf, *g.clip_value);
  }
  hyperparameters_ = list_hyperparameters();
}

Optimizer::~Optimizer() = default;

// What happens to which leaf --------------------------------------------------------------------------------
Optimizer::Plans Optimizer::plan(std::span<const ParamLeafId> leaves) const {
  Plans plans(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) plans[i].name = to_string(leaves[i]);

  const auto for_covered = [&](const std::string& name, std::string_view use, const auto& act) {
    bool found = false;
    for (LeafPlan& p : plans)
      if (covers(name, p.name)) {
        act(p);
        found = true;
      }
    if (found) return;
    const std::vector<std::string> known = row_names(plans);
    throw ValueError(kStage, fmt::format("{} '{}' names no parameter{}; there are: {}", use, name,
                                         did_you_mean(name, known), fmt::join(known, ", ")));
  };
  for (const std::string& name : common_.frozen)
    for_covered(name, "frozen", [](LeafPlan& p) { p.frozen = true; });
  for (std::size_t k = 0; k < common_.groups.size(); ++k)
    for_covered(common_.groups[k].leaf, "a parameter group", [&](LeafPlan& p) {
      p.group = k + 1;
      p.frozen = p.frozen || common_.groups[k].frozen;
    });
  for (const Constraint& c : common_.constraints)
    for_covered(c.leaf, "a constraint on", [&](LeafPlan& p) { p.constraints.push_back(&c); });

  for (LeafPlan& p : plans) {
    if (p.frozen) continue;
    p.slots = slots();
    if (std::any_of(p.constraints.begin(), p.constraints.end(),
                    [](const Constraint* c) { return keeps_initial_sign(*c); }))
      p.slots.push_back({"sign"});
  }
  return plans;
}

Optimizer::Plans Optimizer::plan_for(std::size_t params, std::span<const ParamLeafId> leaves) const {
  if (leaves.empty() && !bound()) return plan(numbered_leaves(params));
  Plans plans = leaves.empty() ? plans_ : plan(leaves);
  require_count("parameters", params, plans.size());
  return plans;
}

std::vector<std::string> Optimizer::state_names(std::span<const ParamLeafId> leaves) const {
  std::vector<std::string> names{"step"};
  for (const LeafPlan& p : plan(leaves))
    for (const Slot& s : p.slots) names.push_back(fmt::format("{}/{}", p.name, s.name));
  return names;
}

// Start -----------------------------------------------------------------------------------------------------
Arrays Optimizer::init(ArraySpan params, std::span<const ParamLeafId> leaves) const {
  return init_planned(plan_for(params.size(), leaves), params);
}

Arrays Optimizer::init_planned(const Plans& plans, ArraySpan params) const {
  const std::size_t own = slots().size();
  Arrays state{full({}, std::int64_t{0}, Dtype::I32)};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].frozen) continue;
    require_trainable(plans[i].name, params[i].aval());
    for (const Constraint* c : plans[i].constraints) check_constraint(*c, plans[i].name, params[i].shape());
    const Dtype dtype = work_type(params[i].dtype());
    for (std::size_t k = 0; k < plans[i].slots.size(); ++k)
      state.push_back(k < own ? full(params[i].shape(), plans[i].slots[k].initial, dtype)
                              : sign(convert(params[i], dtype)));
  }
  return state;
}

// Hyperparameters -------------------------------------------------------------------------------------------
std::vector<Optimizer::Hyperparameter> Optimizer::list_hyperparameters() const {
  std::vector<Hyperparameter> out{{"lr", 0, Hyperparameter::Rate}};
  if (decay_ > 0.0) out.push_back({"weight_decay", 0, Hyperparameter::WeightDecay});
  if (common_.clip_norm) out.push_back({"clip_norm", 0, Hyperparameter::ClipNorm});
  if (common_.clip_value) out.push_back({"clip_value", 0, Hyperparameter::ClipValue});
  for (std::size_t k = 0; k < common_.groups.size(); ++k) {
    const ParamGroup& g = common_.groups[k];
    const auto add = [&](bool given, const char* name, Hyperparameter::Kind kind) {
      if (given) out.push_back({fmt::format("{}:{}", name, g.leaf), k + 1, kind});
    };
    add(g.learning_rate.has_value(), "lr", Hyperparameter::Rate);
    add(g.weight_decay.value_or(0.0) > 0.0, "weight_decay", Hyperparameter::WeightDecay);
    add(g.clip_norm.has_value(), "clip_norm", Hyperparameter::ClipNorm);
    add(g.clip_value.has_value(), "clip_value", Hyperparameter::ClipValue);
  }
  return out;
}

double Optimizer::hyperparameter(const Hyperparameter& h, std::int64_t step) const {
  const ParamGroup* g = h.group == 0 ? nullptr : &common_.groups[h.group - 1];
  switch (h.kind) {
    case Hyperparameter::Rate:
      return (g == nullptr ? rate_ : *g->learning_rate).at(step);
    case Hyperparameter::WeightDecay:
      return g == nullptr ? decay_ : *g->weight_decay;
    case Hyperparameter::ClipNorm:
      return g == nullptr ? *common_.clip_norm : *g->clip_norm;
    case Hyperparameter::ClipValue:
      break;
  }
  return g == nullptr ? *common_.clip_value : *g->clip_value;
}

std::vector<std::string> Optimizer::hyperparameter_names(std::span<const ParamLeafId> leaves) const {
  plan(leaves);  // a group that covers nothing is an error here, too
  std::vector<std::string> out;
  for (const Hyperparameter& h : hyperparameter_list()) out.push_back(h.name);
  return out;
}

std::vector<double> Optimizer::hyperparameters(std::int64_t step) const {
  std::vector<double> out(hyperparameters_.size());
  hyperparameters(step, out);
  return out;
}

void Optimizer::hyperparameters(std::int64_t step, std::span<double> into) const {
  for (std::size_t i = 0; i < hyperparameters_.size(); ++i)
    into[i] = hyperparameter(hyperparameters_[i], step);
}

// Entry 0 for all parameters, then one per group.
std::vector<Optimizer::Settings> Optimizer::settings(ArraySpan hyper, const Array& step, Dtype dtype) const {
  const std::vector<Hyperparameter>& list = hyperparameter_list();
  if (!hyper.empty()) require_count("hyperparameters", hyper.size(), list.size());
  std::vector<Settings> out(1 + common_.groups.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Hyperparameter& h = list[i];
    Array value;
    if (!hyper.empty())
      value = convert(hyper[i], dtype);
    else if (h.kind == Hyperparameter::Rate)
      value = (h.group == 0 ? rate_ : *common_.groups[h.group - 1].learning_rate)(convert(step, dtype));
    else
      value = full({}, hyperparameter(h, 0), dtype);
    Settings& s = out[h.group];
    (h.kind == Hyperparameter::Rate          ? s.rate
     : h.kind == Hyperparameter::WeightDecay ? s.decay
     : h.kind == Hyperparameter::ClipNorm    ? s.clip_norm
                                             : s.clip_value) = value;
  }
  for (std::size_t k = 1; k < out.size(); ++k) {
    const ParamGroup& g = common_.groups[k - 1];
    if (!out[k].rate.defined()) out[k].rate = out[0].rate;
    if (!g.weight_decay) out[k].decay = out[0].decay;
    if (!out[k].clip_value.defined()) out[k].clip_value = out[0].clip_value;
  }
  return out;
}

// One update ------------------------------------------------------------------------------------------------
Updated Optimizer::apply(ArraySpan params, ArraySpan grads, ArraySpan state,
                         std::span<const ParamLeafId> leaves, ArraySpan hyper) const {
  const Plans plans = plan_for(params.size(), leaves);
  require_count("gradients", grads.size(), params.size());
  return apply_planned(plans, params, grads, state, std::vector<bool>(params.size(), false), hyper);
}

Updated Optimizer::apply_planned(const Plans& plans, ArraySpan params, ArraySpan grads, ArraySpan state,
                                 const std::vector<bool>& skipped, ArraySpan hyper) const {
  std::size_t slots_in_all = 0;
  for (const LeafPlan& p : plans) slots_in_all += p.slots.size();
  require_count("arrays of state (the step, then slots leaf by leaf)", state.size(), 1 + slots_in_all);
  require_type("state", "step", state[0], {Dtype::I32, {}});

  Dtype dtype = Dtype::F32;  // the widest that a leaf is updated in; scalars common to all leaves have it
  for (std::size_t i = 0; i < params.size(); ++i)
    if (!plans[i].frozen && !skipped[i]) dtype = promote(dtype, work_type(params[i].dtype()));
  const std::vector<Settings> with = settings(hyper, state[0], dtype);
  Arrays moving = gradients(plans, params, grads, skipped, with);
  for (std::size_t k = 0; k < with.size(); ++k) {
    if (!with[k].clip_norm.defined()) continue;
    std::vector<bool> members;  // a group without a norm of its own counts with all others
    for (const LeafPlan& p : plans)
      members.push_back(p.group == k || (k == 0 && !with[p.group].clip_norm.defined()));
    clip_by_norm(moving, members, with[k].clip_norm, dtype);
  }

  Updated out{{params.begin(), params.end()}, {state.begin(), state.end()}};
  out.state[0] = next_count(state[0]);
  const Array count = convert(out.state[0], dtype);
  std::size_t first = 1;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::span<Array> slots = std::span<Array>(out.state).subspan(first, plans[i].slots.size());
    first += slots.size();
    if (!moving[i].defined()) continue;
    for (std::size_t k = 0; k < slots.size(); ++k)
      require_type("state", fmt::format("{}/{}", plans[i].name, plans[i].slots[k].name), slots[k],
                   {moving[i].dtype(), params[i].shape()});
    out.params[i] =
        moved(plans[i], params[i], std::exchange(moving[i], {}), with[plans[i].group], count, slots);
  }
  return out;
}

void Optimizer::check_gradients(ArraySpan grads, const std::vector<bool>& skipped) const {
  std::size_t next = 0;
  for (const std::shared_ptr<State>& state : params_)
    for (const Aval& type : state->avals()) {
      const std::size_t i = next++;
      if (skipped[i]) continue;
      require_trainable(plans_[i].name, type);
      if (grads[i].defined()) require_type("the gradient of", plans_[i].name, grads[i], type);
    }
}

// Masked and clipped by value, in the type that the leaf is updated in; undefined where nothing shall move.
Arrays Optimizer::gradients(const Plans& plans, ArraySpan params, ArraySpan grads,
                            const std::vector<bool>& skipped, const std::vector<Settings>& with) const {
  Arrays out(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (plans[i].frozen || skipped[i]) continue;
    const Aval& type = params[i].aval();
    require_trainable(plans[i].name, type);
    if (grads[i].defined()) require_type("the gradient of", plans[i].name, grads[i], type);
    Array g = convert(instantiate(grads[i], type), work_type(type.dtype));
    for (const Constraint* c : plans[i].constraints) {
      check_constraint(*c, plans[i].name, type.shape);
      g = mask_gradient(*c, g);
    }
    if (const Array& limit = with[plans[i].group].clip_value; limit.defined()) {
      const Array bound = convert(limit, g.dtype());
      g = minimum(maximum(g, -bound), bound);
    }
    out[i] = g;
  }
  return out;
}

Array Optimizer::moved(const LeafPlan& leaf, const Array& param, const Array& grad, const Settings& with,
                       const Array& count, std::span<Array> slots) const {
  const Dtype dtype = grad.dtype();
  const Array before = convert(param, dtype);
  const auto decayed = [&](Decay form, const Array& x) {
    return form == decay_form_ && with.decay.defined() ? x + convert(with.decay, dtype) * before : x;
  };

  Direction d = direction(decayed(Decay::InGradient, grad), slots, convert(count, dtype));
  // Eager values as large as the leaf go as soon as they are used.
  Array move = decayed(Decay::Decoupled, std::exchange(d.value, {}));
  move = convert(with.rate, dtype) * move;
  Array after = before - std::exchange(move, {});
  // The slots of the rule come first; what is left is the sign at the start, which stays.
  const Array initial_sign = d.slots.size() < slots.size() ? slots.back() : Array();
  for (const Constraint* c : leaf.constraints) after = project(*c, after, initial_sign);
  std::copy(d.slots.begin(), d.slots.end(), slots.begin());
  return convert(after, param.dtype());
}

}  // namespace etrace::optim
