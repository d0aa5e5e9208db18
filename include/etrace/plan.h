// A learning rule on a compiled graph, as pure programs: everything that is carried goes in and comes out.
// Backends see only these. A user starts with etrace/learner.h.
#pragma once

#include "etrace/learning.h"

namespace etrace {

// What is carried from step to step besides the parameters.
struct Carry {
  Arrays states;  // hidden and other states, in the order of the program's inputs
  Arrays memory;  // the rule's traces, then two counters (i32): steps that the traces have seen, and calls
};

// What a step function gives.
struct LossAndAux {
  Array loss;
  Arrays aux = {};
};

// Step functions --------------------------------------------------------------------------------------------
// The learner as a step function sees it: calling it runs the model, once.
class StepCall {
 public:
  Arrays operator()(std::span<const StepInput> args);
  Array operator()(const StepInput& x);  // a model with one argument and one result
  Arrays operator()(std::initializer_list<StepInput> args) {
    return (*this)(std::span<const StepInput>(args.begin(), args.size()));
  }

 private:
  friend struct StepProgram;
  const ETraceGraph* graph_ = nullptr;
  std::optional<std::int64_t> window_;  // steps of the call; none: one step
  bool plain_ = false;                  // a window of one step that looks like a step
  Arrays outputs_, args_;
  std::vector<bool> multi_step_;
  bool called_ = false;
};
// From slices of the sequences to the loss: a scalar, or one number per step of a window.
using StepFunction = std::function<LossAndAux(StepCall& model, ArraySpan slices)>;

// A step function as a program: (slices…, results of the model…) -> (arguments of the model…, loss, aux…).
struct StepProgram {
  ClosedJaxpr program;
  std::size_t num_slices = 0, num_args = 0;
  std::vector<bool> multi_step;        // per argument: does it have a time axis
  std::optional<std::int64_t> window;  // steps; none: one step

  // CompilationError if f does not call the model exactly once; ValueError for a loss or argument of the
  // wrong shape.
  // Slices are the types of one step's, or with their time axis those of a window.
  static StepProgram trace(const ETraceGraph&, const StepFunction& f, std::span<const Aval> slices,
                           std::optional<std::int64_t> window = std::nullopt);
  // The same for a function of one step, as a window of one: for a multi-step learner that goes step by step.
  static StepProgram trace_unit_window(const ETraceGraph&, const StepFunction& f,
                                       std::span<const Aval> slices);
  Arrays arguments(ArraySpan slices) const;
  LossAndAux loss(ArraySpan slices, ArraySpan outputs) const;

 private:
  static StepProgram record(const ETraceGraph&, const StepFunction&, std::span<const Aval> slices,
                            std::optional<std::int64_t> window, bool plain);
};

// Plans -----------------------------------------------------------------------------------------------------
// (params…, states…, memory…, slices…, weights) -> (losses, aux…, states…, memory…, gradients…)
struct LearnerPlan {
  std::vector<ParamLeafId> params;
  std::vector<LearningRule::Slot> memory;
  std::int64_t steps = 1;  // of `window`
  ClosedJaxpr init;        // () -> (memory…)
  ClosedJaxpr evolve;  // (params…, states…, memory…, arguments…) -> (results…, states…, memory…), one step
  ClosedJaxpr step;    // one step with its gradient; slices without a time axis, weights a scalar
  ClosedJaxpr window;  // several: slices, weights, losses and aux have a leading axis
  ClosedJaxpr solve;   // (params…, memory…, signal of every group…) -> (gradients…)
};

class PlanBuilder {
 public:
  PlanBuilder(const ETraceGraph& graph, const LearningRule& rule);  // both must outlive it

  const ETraceGraph& graph() const { return graph_; }
  std::vector<LearningRule::Slot> memory() const;
  Avals state_types() const;
  Avals param_types() const;
  Arrays initial_memory() const;

  // K steps without a gradient. Multi-step arguments have a leading axis K; so have the results, unless there
  // are none (one step).
  struct Driven {
    Carry carry;
    Arrays outputs;
  };
  Driven drive(ArraySpan params, const Carry&, std::span<const StepInput> args,
               const Array& active = {}) const;

  // K steps with the gradient of Σ weight·loss; slices [K, …], weights [K].
  struct Learned {
    Carry carry;
    Array losses;      // [K], as the step function gives them
    Arrays aux;        // stacked over steps (over calls of the step function, if that takes windows)
    Arrays gradients;  // per parameter leaf
  };
  Learned learn(ArraySpan params, const Carry&, const StepProgram&, ArraySpan slices, const Array& weights,
                const Array& active = {}) const;

  Arrays solve(ArraySpan params, const Carry&, ArraySpan signal) const;

  // The programs for one loss. `slices` are the types of one step's (a window's, if the function takes
  // those).
  LearnerPlan plan(const StepFunction&, std::span<const Aval> slices, std::int64_t steps) const;

 private:
  Learned learn_steps(ArraySpan params, const Carry&, const StepProgram&, ArraySpan slices,
                      const Array& weights, const Array& active) const;
  Learned learn_window(ArraySpan params, const Carry&, const StepProgram&, ArraySpan slices,
                       const Array& weights, const Array& active) const;
  struct Forward {
    StepBatch batch;         // every step with its entry state
    Arrays states, outputs;  // at the end; of every step
  };
  Forward forward(ArraySpan params, const Carry&, const Arrays& args, std::int64_t steps,
                  const Array& active) const;
  Arrays stacked_args(std::span<const StepInput>, std::int64_t steps) const;
  WindowData window_data(ArraySpan params, const Carry&, std::int64_t steps, const Array& active) const;
  WindowData window_data(const Forward&, const Carry&, const Array& active) const;
  Arrays traces(const Carry& c) const { return {c.memory.begin(), c.memory.end() - 2}; }
  Arrays next_memory(const Carry& old, Arrays traces, std::int64_t steps, const Array& active) const;

  const ETraceGraph& graph_;
  const LearningRule& rule_;
  ETraceVjpGraphExecutor executor_;
};

}  // namespace etrace
