// One trace per parameter element and output position, as a part that rules compose.
//
//   e[slot] ← D[p]·e[slot] + f[p]·x[slot]        G[slot] = Σ l[p]·e[slot]        p: the slot's output
//   position
//
// A window of K steps passes each trace once (etrace/ops/trace_window.h). Where D is zero by structure, no
// trace is kept at all: the gradient of a window is one product of x and l·f, and the trace is made from the
// last x and f when somebody asks for it.
#pragma once

#include <memory>

#include "etrace/learning_rule.h"

namespace etrace {

struct ParameterTraceOptions {
  std::string rule;                       // for errors
  std::optional<Dtype> trace_dtype = {};  // f16 and bf16 are for storage
  // What a rule changes. States stand in front of positions: D [K, M, M, X], f and l [K, M, X]; X counts
  // positions, samples included. Empty functions change nothing.
  std::function<Array(const HiddenGroup&, const WindowData&, const Array& signal)> signal = {};
  // A lift to M' = copies·M states: the trace follows ([M', M'], [M'], [M']) in place of (D, f, l).
  std::int64_t copies = 1;
  std::function<Array(const Array& jacobian)> lift_jacobian = {};
  std::function<Array(const Array& injection)> lift_injection = {};
  std::function<Array(const Array& signal)> lift_signal = {};
};

class ParameterTraces final : public BoundRule {
 public:
  ParameterTraces(const ETraceGraph&, ParameterTraceOptions);
  ~ParameterTraces() override;

  std::vector<TraceSlot> slots() const override;
  std::vector<EligibilityTrace> traces(ArraySpan params, ArraySpan memory) const override;
  Arrays keep(const StepData&) const override;
  Advanced advance(const WindowData&, ArraySpan memory, const Signals&) const override;
  Arrays contract(const WindowData&, ArraySpan memory, ArraySpan signal) const override;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace etrace
