#include "learn/rules/signal_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "learn/traces/lists.h"

namespace etrace {

namespace {

// Random feedback -------------------------------------------------------------------------------------------
class RandomFeedback final : public SignalRule {
 public:
  RandomFeedback(const ETraceGraph& g, std::uint64_t key) : g_(g), key_(key) {
    for (const HiddenParamOpRelation* r : g.all_relations())
      for (const std::size_t k : r->hidden_groups)
        if (std::find(groups_.begin(), groups_.end(), k) == groups_.end()) groups_.push_back(k);
  }

  std::vector<TraceSlot> slots() const override {
    std::vector<TraceSlot> out;
    for (const std::size_t k : groups_) {
      const HiddenGroup& group = g_.hidden_groups[k];
      out.push_back({fmt::format("group{}/feedback", k),
                     {group.hidden_states.front().invar.aval.dtype, {width(group), width(group)}},
                     PortRole::RuleParam});
    }
    return out;
  }

  Arrays initial() const override {
    Arrays out;
    const std::vector<TraceSlot> own = slots();
    const Array keys = random::split(random::key(key_), static_cast<std::int64_t>(own.size()));
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      out.push_back(0.1 * random::normal(squeeze(slice_axis(keys, 0, at, at + 1), {0}), own[i].aval.shape,
                                         own[i].aval.dtype));
    }
    return out;
  }

  bool replaces() const override { return true; }
  Arrays signal(const WindowData&, ArraySpan own, BoundRule::SignalTo, Arrays signal) const override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Array& l = signal[groups_[i]];
      const HiddenGroup& group = g_.hidden_groups[groups_[i]];
      const std::int64_t n = width(group), s = group.num_state();
      const Array split = reshape(l, {l.size() / (n * s), n, s});
      const Array size = sqrt(sum(square(split), {1}, true));
      const Array projected = einsum_plain("rls,lk->rks", Arrays{split / (size + 1e-8), own[i]});
      l = reshape(projected, l.shape().to_dims());
    }
    return signal;
  }

 private:
  static std::int64_t width(const HiddenGroup& group) {
    return group.varshape().is_scalar() ? 1 : group.varshape().back();
  }
  const ETraceGraph& g_;
  std::uint64_t key_;
  std::vector<std::size_t> groups_;  // in the order of the relations
};

// A third factor --------------------------------------------------------------------------------------------
class Modulatory final : public SignalRule {
 public:
  explicit Modulatory(const ETraceGraph& g) : g_(g) {}

  bool replaces() const override { return true; }
  Arrays signal(const WindowData& w, ArraySpan, BoundRule::SignalTo to, Arrays signal) const override {
    if (to != BoundRule::SignalTo::EachStep) return {};
    if (!w.modulator.defined())
      throw ValueError("modulator", "a rule with a third factor learns, but no modulator was given");
    std::int64_t first = 0;
    for (const HiddenGroup& group : g_.hidden_groups) {
      Array& l = signal[group.index];
      const std::int64_t states = l.shape().without(0).size();
      const Array m =
          !w.modulator_by_group
              ? spread(group, w.modulator, l)
              : convert(reshape(slice_axis(w.modulator, 1, first, first + states), l.shape().to_dims()),
                        l.dtype());
      first += states;
      l = in_steps_that_count(m, w.active);
    }
    return signal;
  }

 private:
  // Nothing is learned from padding, whatever the modulator is there.
  static Array in_steps_that_count(const Array& signal, const Array& active) {
    if (!active.defined()) return signal;
    Dims dims = active.shape().to_dims();  // [K] or [K, B]
    dims.resize(signal.rank(), 1);
    return where(reshape(active, dims), signal, full({}, 0.0, signal.dtype()));
  }

  // m [K, …] -> like [K, *varshape, S]
  static Array spread(const HiddenGroup& group, const Array& m, const Array& like) {
    const Shape one = m.shape().without(0), slab = like.shape().without(0);
    const bool per_position = !one.is_scalar() && one == group.varshape();
    // Axes of size 1 behind K, so that the trailing ones line up.
    Dims dims = one.to_dims();
    if (per_position) dims.push_back(1);
    // Fewer axes say not which they are, however long they are.
    if (dims.size() != slab.rank() && one.size() != 1) refuse(group, one);
    dims.insert(dims.begin(), slab.rank() - dims.size(), 1);
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (dims[i] != 1 && dims[i] != slab[i]) refuse(group, one);
    dims.insert(dims.begin(), m.shape()[0]);
    return broadcast_to(convert(reshape(m, dims), like.dtype()), like.shape());
  }

  [[noreturn]] static void refuse(const HiddenGroup& group, const Shape& found) {
    Dims slab = group.varshape().to_dims();
    slab.push_back(group.num_state());
    throw ValueError(
        "modulator",
        fmt::format("a modulator of shape {} does not spread over the states {} of group {}; give "
                    "a number, or an array of shape {} or {}, in which axes may have length 1, or one for "
                    "each group (set_modulator), over samples or neurons",
                    to_string(found), to_string(Shape(slab)), group.index, to_string(group.varshape()),
                    to_string(Shape(slab))));
  }
  const ETraceGraph& g_;
};

// Bootstrapped ----------------------------------------------------------------------------------------------
class Bootstrapped final : public SignalRule {
 public:
  Bootstrapped(const ETraceGraph& g, std::shared_ptr<const Synthesizer> s)
      : g_(g), synthesizer_(std::move(s)) {}

  std::vector<TraceSlot> slots() const override { return synthesizer_->params(g_); }
  Arrays initial() const override { return synthesizer_->initial(g_); }
  bool replaces() const override { return false; }
  Arrays exit_estimate(const WindowData& w, ArraySpan own, ArraySpan hidden) const override {
    Arrays out = synthesizer_->estimate(g_, w, own, hidden);
    if (out.size() != hidden.size())
      throw ValueError("DNI", fmt::format("the synthesizer {} gives {} estimates for {} groups",
                                          synthesizer_->name(), out.size(), hidden.size()));
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (out[k].shape() != hidden[k].shape())
        throw ValueError("DNI", fmt::format("the synthesizer {} gives an estimate of shape {} for group {}, "
                                            "whose states have shape {}",
                                            synthesizer_->name(), to_string(out[k].shape()), k,
                                            to_string(hidden[k].shape())));
      out[k] = convert(out[k], hidden[k].dtype());
    }
    return out;
  }

 private:
  const ETraceGraph& g_;
  std::shared_ptr<const Synthesizer> synthesizer_;
};

// An engine with a signal of its own ------------------------------------------------------------------------
class WithSignal final : public BoundRule {
 public:
  WithSignal(std::unique_ptr<const BoundRule> engine, std::unique_ptr<const SignalRule> signal)
      : engine_(std::move(engine)), signal_(std::move(signal)), engine_slots_(engine_->slots().size()) {}

  std::vector<TraceSlot> slots() const override {
    std::vector<TraceSlot> out = engine_->slots();
    for (TraceSlot& s : signal_->slots()) out.push_back(std::move(s));
    return out;
  }
  Arrays initial(std::uint64_t seed) const override {
    return joined({engine_->initial(seed), signal_->initial()});
  }
  std::vector<EligibilityTrace> traces(ArraySpan params, ArraySpan memory) const override {
    return engine_->traces(params, memory.first(engine_slots_));
  }
  Arrays keep(const StepData& d) const override { return engine_->keep(d); }
  Advanced advance(const WindowData& w, ArraySpan memory, const Signals& signals) const override {
    Advanced out = engine_->advance(w, memory.first(engine_slots_), signals);
    out.memory = joined({out.memory, memory.subspan(engine_slots_)});
    return out;
  }
  OwnStep own_step() const override { return signal_->replaces() ? OwnStep::Signal : engine_->own_step(); }
  Arrays contract(const WindowData& w, ArraySpan memory, ArraySpan signal) const override {
    return engine_->contract(w, memory.first(engine_slots_), signal);
  }
  Arrays learning_signal(const WindowData& w, ArraySpan memory, SignalTo to, Arrays signal) const override {
    return signal_->signal(w, memory.subspan(engine_slots_), to, std::move(signal));
  }
  Arrays exit_estimate(const WindowData& w, ArraySpan memory, ArraySpan hidden) const override {
    return signal_->exit_estimate(w, memory.subspan(engine_slots_), hidden);
  }

 private:
  std::unique_ptr<const BoundRule> engine_;
  std::unique_ptr<const SignalRule> signal_;
  std::size_t engine_slots_;
};

}  // namespace

std::unique_ptr<const SignalRule> random_feedback(const ETraceGraph& g, std::uint64_t key) {
  return std::make_unique<RandomFeedback>(g, key);
}
std::unique_ptr<const SignalRule> modulatory(const ETraceGraph& g) { return std::make_unique<Modulatory>(g); }
std::unique_ptr<const SignalRule> bootstrapped(const ETraceGraph& g, std::shared_ptr<const Synthesizer> s) {
  return std::make_unique<Bootstrapped>(g, std::move(s));
}
std::unique_ptr<const BoundRule> with_signal(std::unique_ptr<const BoundRule> engine,
                                             std::unique_ptr<const SignalRule> signal) {
  return std::make_unique<WithSignal>(std::move(engine), std::move(signal));
}

}  // namespace etrace
