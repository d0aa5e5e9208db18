// What takes the place of ∂L/∂h, for every engine alike: a part of a rule, with slots of its own behind those
// of the engine.
#pragma once

#include "etrace/learning_rule.h"
#include "etrace/synthesizer.h"

namespace etrace {

class SignalRule {
 public:
  virtual ~SignalRule() = default;
  virtual std::vector<TraceSlot> slots() const { return {}; }
  virtual Arrays initial() const { return {}; }
  // Does something else take the place of ∂L/∂h?
  virtual bool replaces() const = 0;
  virtual Arrays signal(const WindowData&, ArraySpan own, BoundRule::SignalTo, Arrays signal) const {
    (void)own;
    return signal;
  }
  virtual Arrays exit_estimate(const WindowData&, ArraySpan own, ArraySpan hidden) const {
    (void)own, (void)hidden;
    return {};
  }
};

// λ' = λ/(‖λ‖ + 1e-8)·B over the last axis of the positions, with one fixed random B [n, n] per group that a
// relation feeds, entries 0.1·normal.
std::unique_ptr<const SignalRule> random_feedback(const ETraceGraph&, std::uint64_t key);
// The modulator in place of λ: a number, or an array that spreads over [*varshape] or [*varshape, S].
std::unique_ptr<const SignalRule> modulatory(const ETraceGraph&);
// λ itself, and an estimate for the exit of a window.
std::unique_ptr<const SignalRule> bootstrapped(const ETraceGraph&, std::shared_ptr<const Synthesizer>);

std::unique_ptr<const BoundRule> with_signal(std::unique_ptr<const BoundRule> engine,
                                             std::unique_ptr<const SignalRule>);

}  // namespace etrace
