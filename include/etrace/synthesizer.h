// Estimates of what later windows will say to the states at the exit of this one: ∂(Σ later losses)/∂h. The
// rule DNI gives them to parameters that no trace carries. A synthesizer is fitted with
// train_synthetic_gradient (etrace/synthetic_gradient.h).
#pragma once

#include <memory>

#include "etrace/learning_rule.h"

#pragma GCC visibility push(default)
namespace etrace {

class Synthesizer {
 public:
  virtual ~Synthesizer() = default;
  virtual std::string name() const = 0;
  // Its own parameters: slots of role RuleParam, and their values at the start (zeros by default).
  virtual std::vector<TraceSlot> params(const ETraceGraph&) const = 0;
  virtual Arrays initial(const ETraceGraph&) const;
  // Per group [*varshape, S], from the states of that shape at the exit of the window.
  virtual Arrays estimate(const ETraceGraph&, const WindowData&, ArraySpan params,
                          ArraySpan hidden) const = 0;
};

// Per group an affine map of the states of each sample: est = reshape(flatten(h)·W + b) over the last axis of
// the group's shape and its states, n·S numbers. Starts at scale·normal, so by default at zero.
class AffineSynthesizer final : public Synthesizer {
 public:
  explicit AffineSynthesizer(double scale = 0.0, std::uint64_t seed = 0) : scale_(scale), seed_(seed) {}
  std::string name() const override { return "affine"; }
  std::vector<TraceSlot> params(const ETraceGraph&) const override;
  Arrays initial(const ETraceGraph&) const override;
  Arrays estimate(const ETraceGraph&, const WindowData&, ArraySpan params, ArraySpan hidden) const override;

 private:
  double scale_;
  std::uint64_t seed_;
};

}  // namespace etrace
#pragma GCC visibility pop
