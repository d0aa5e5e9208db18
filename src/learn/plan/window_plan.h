// What a learner does with K steps: drive the model and its traces, learn from them, contract a signal. On
// Arrays, to be recorded into programs (plan.cpp).
#pragma once

#include <list>

#include "etrace/plan.h"
#include "learn/plan/exit_credit.h"
#include "learn/plan/step_derivative.h"

namespace etrace {

// What is carried from step to step besides the parameters.
struct Carry {
  Arrays states;  // hidden and other states, in the order of the program's inputs
  Arrays memory;  // the rule's slots, then two counters (i32): steps that the traces have seen, and calls
};
// Counters never overflow: beyond the first number they go back by the second. A learner that has run for
// weeks is old, whatever its exact age, and no two steps near each other have the same number.
inline constexpr std::int64_t kMostCounted = 3 << 29, kCountedBack = 1 << 29;
std::int64_t counted_on(std::int64_t count);

// The third factor of K steps, as WindowData has it; undefined: none.
struct ThirdFactor {
  Array value;
  bool by_group = false;
};

struct Driven {
  Carry carry;
  Arrays outputs;
  Array finite;  // a truth value; false: the carry is what it was
};
struct Learned {
  Carry carry;
  Array losses;      // [K], as the step function gives them
  Arrays aux;        // stacked over steps (over calls of the step function, if that takes windows)
  Arrays gradients;  // per parameter leaf; of no use if nothing was carried on
  Array finite;      // a truth value; false: the carry is what it was
};

class WindowPlan {
 public:
  WindowPlan(const ETraceGraph&, const BoundRule&, VjpMethod);  // both must outlive it

  const ETraceGraph& graph() const { return graph_; }
  VjpMethod method() const { return method_; }
  std::vector<TraceSlot> memory() const;
  Arrays initial_memory(std::uint64_t seed) const;

  // K steps without a gradient. Multi-step arguments have a leading axis K; so have the results, unless there
  // are none (one step).
  Driven drive(ArraySpan params, const Carry&, std::span<const StepInput> args, const Array& active) const;
  // K steps with the gradient of Σ weight·loss; slices [K, …], weights [K] or [K, B].
  Learned learn(ArraySpan params, const Carry&, const StepProgram&, ArraySpan slices, const Array& weights,
                const Array& active, const ThirdFactor&) const;
  // Undefined for what has no trace: a signal to the states does not say what its gradient is.
  Arrays solve(ArraySpan params, const Carry&, ArraySpan signal) const;

 private:
  // How the results of a one-step program continue behind states and its own results: kept, df, D,
  // transitions.
  struct DataLayout {
    std::size_t kept = 0;
    std::vector<std::size_t> df, transitions;
    std::size_t jacobians = 0;
    std::size_t count() const;
  };
  // One step of the model with its data for the traces: (params…, states…, args…) -> (states…, outputs…,
  // data…).
  struct PlainStep {
    StepSplit split;
    std::size_t outputs;
    DataLayout data;
  };
  // The same with the loss: (params…, states…, slices…, weight) -> (states…, loss, aux…, data…, residuals…).
  struct LossStep {
    StepProgram program;  // by this it is found again
    StepDerivative derivative;
    StepSplit split;
    std::size_t aux;
    DataLayout data;
  };
  const PlainStep& plain_step() const;
  const ExitCredit& exit_credit() const;
  const LossStep& loss_step(const StepProgram&, std::span<const Aval> slices, const Aval& weight) const;
  Arrays data_of(const StepValues&, DataLayout&) const;
  WindowData window_data(ArraySpan params, const Carry&, std::int64_t steps, const Array& active) const;
  void fill(WindowData&, const DataLayout&, const StepSplit::Result&, std::size_t first) const;
  Arrays next_memory(const Carry& old, Arrays slots, std::int64_t steps, const Array& active) const;
  Signals signals_of(const WindowData&, ArraySpan memory, const StepGradients&) const;
  Learned learn_steps(ArraySpan params, const Carry&, const StepProgram&, ArraySpan slices,
                      const Array& weights, const Array& active, const ThirdFactor&) const;
  Learned learn_window(ArraySpan params, const Carry&, const StepProgram&, ArraySpan slices,
                       const Array& weights, const Array& active, const ThirdFactor&) const;

  const ETraceGraph& graph_;
  const BoundRule& rule_;
  VjpMethod method_;
  ETraceGraphExecutor executor_;
  OwnSteps own_;
  mutable std::unique_ptr<const PlainStep> plain_;  // made when first needed
  mutable std::list<LossStep> losses_;
  mutable std::unique_ptr<const ExitCredit> exit_credit_;
};

}  // namespace etrace
