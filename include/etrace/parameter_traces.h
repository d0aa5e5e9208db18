// One trace per parameter element and output position, as a part that rules compose.
//
//   e[slot] ← D[p]·e[slot] + f[p]·x[slot]        G[slot] = Σ l[p]·D[p]·e[slot] + ∂L/∂y[p]·x[slot]
//
// with p the slot's output position: the past by the trace, the own step by reverse mode, in one pass.
// A window of K steps passes each trace once (etrace/ops/trace_window.h). Where D is zero by structure, no
// trace is kept at all: the gradient of a window is one product of x and ∂L/∂y, and the trace is made from
// the last x and f when somebody asks for it. Weights behind other weights (ETraceGraph::composite_relations)
// have a trace for every position of the states.
#pragma once

#include <memory>

#include "etrace/learning_rule.h"

#pragma GCC visibility push(default)
namespace etrace {

struct ParameterTraceOptions {
  std::string rule;                       // for errors
  std::optional<Dtype> trace_dtype = {};  // f16 and bf16 are for storage
  // In place of D, [K, M, M, X] with the states in front of X positions, samples included; empty: D itself.
  std::function<Array(const Array& jacobian)> jacobian = {};
  bool memoryless = false;  // zero in place of D
  // A low-pass filter behind the trace, ē ← κ·ē + e, which signals meet in its place. It moves with the
  // trace: a trace of twice the states (e, ē), whose D is [[D, 0], [D, κ]], fed by (f, f) and met by (0, l).
  std::optional<double> kappa = {};
  std::vector<std::string> unfiltered = {};  // paths of hidden states whose signals meet e, not ē
  bool kappa_at_entry = true;                // false: signals at the entry of a window meet e, all of them
  // Bytes that the traces of composite relations may take, where the graph has any.
  std::int64_t composite_max_bytes = std::int64_t{1} << 30;
};

class ParameterTraces : public BoundRule {
 public:
  ParameterTraces(const ETraceGraph&, ParameterTraceOptions);
  ~ParameterTraces() override;

  std::vector<TraceSlot> slots() const override;
  std::vector<EligibilityTrace> traces(ArraySpan params, ArraySpan memory) const override;
  Arrays keep(const StepData&) const override;
  Advanced advance(const WindowData&, ArraySpan memory, const Signals&) const override;
  Arrays contract(const WindowData&, ArraySpan memory, ArraySpan signal) const override;
  // A rule that overrides learning_signal() overrides this, too: OwnStep::Signal.
  OwnStep own_step() const override { return OwnStep::ReverseMode; }

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace etrace
#pragma GCC visibility pop
