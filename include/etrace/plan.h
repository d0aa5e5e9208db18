// A learning rule on a compiled graph, as programs: all that a learner runs, made by one builder. Every
// program is pure; what it carries on (states, traces, counters, parameters, slots of the optimiser) goes in
// and comes out at aliased ports. Backends see only these. A user starts with etrace/learner.h; `etrace plan`
// prints them.
#pragma once

#include <functional>
#include <memory>

#include "etrace/learning.h"
#include "etrace/optim.h"
#include "etrace/program.h"

#pragma GCC visibility push(default)
namespace etrace {

enum class Reduction : std::uint8_t { Mean, Sum };

// What a step function gives.
struct LossAndAux {
  Array loss;
  Arrays aux = {};
};

// Step functions --------------------------------------------------------------------------------------------
class StepFunction;
struct StepProgram;

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
  Avals types_;                         // of the model's arguments
  std::optional<std::int64_t> window_;  // steps of the call; none: one step
  bool plain_ = false;                  // a window of one step that looks like a step
  friend StepFunction in_windows(StepProgram);
  Arrays outputs_, args_;
  Arrays params_;  // what stands for the parameters of the model, leaf by leaf
  std::vector<bool> multi_step_;
  bool called_ = false;
};

// From slices of the sequences to the loss: a scalar, or one number per step of a window; with weights per
// sample one number per sample, [B] or [K, B]. A learner traces a StepFunction once per form and remembers
// it: copies are the same function, and what it reads from outside is read then. A new StepFunction is traced
// anew.
//
// Parameters that the model's step uses are no such constants: read at their states, or by
// Learner::params(), they are inputs, and the loss is differentiated by them as well (a penalty on weights).
// Other states of the model are refused (NotSupportedError): return them from the model's update.
class StepFunction {
 public:
  using Body = std::function<LossAndAux(StepCall& model, ArraySpan slices)>;
  StepFunction() = default;
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, StepFunction> &&
           std::is_invocable_r_v<LossAndAux, F&, StepCall&, ArraySpan>)
      StepFunction(F f)  // NOLINT: any such function is a step function
      : body_(std::make_shared<const Body>(std::move(f))) {}

  LossAndAux operator()(StepCall& model, ArraySpan slices) const { return (*body_)(model, slices); }
  explicit operator bool() const { return body_ != nullptr; }
  const std::shared_ptr<const Body>& identity() const { return body_; }

 private:
  std::shared_ptr<const Body> body_;
};

// A step function as a program: (slices…, results of the model…, parameters that the function reads itself…)
// -> (arguments of the model…, loss, aux…).
struct StepProgram {
  ClosedJaxpr program;
  std::size_t num_slices = 0, num_args = 0;
  std::vector<std::size_t> params;      // which of the model's parameter leaves it reads itself
  std::vector<bool> multi_step;         // per argument: does it have a time axis
  std::optional<std::int64_t> window;   // steps; none: one step
  std::optional<std::int64_t> samples;  // a loss per sample; none: one for all

  // CompilationError if f does not call the model exactly once; ValueError for a loss or argument of the
  // wrong shape. Slices are the types of one step's, or with their time axis those of a window.
  static StepProgram trace(const ETraceGraph&, const StepFunction& f, std::span<const Aval> slices,
                           std::optional<std::int64_t> window = std::nullopt,
                           std::optional<std::int64_t> samples = std::nullopt);
  static StepProgram trace(const Model&, const StepFunction& f, std::span<const Aval> slices);
  // The same for a function of one step, as a window of one: for a multi-step learner that goes step by step.
  static StepProgram trace_unit_window(const ETraceGraph&, const StepFunction& f,
                                       std::span<const Aval> slices,
                                       std::optional<std::int64_t> samples = std::nullopt);
  Arrays arguments(ArraySpan slices) const;
  // params: of every parameter leaf of the model.
  LossAndAux loss(ArraySpan slices, ArraySpan outputs, ArraySpan params) const;
  Arrays own_params(ArraySpan params) const;  // those that it reads
  // The same with these alone.
  LossAndAux loss_with(ArraySpan slices, ArraySpan outputs, ArraySpan own_params) const;
  std::size_t num_aux() const { return program.jaxpr.outs.size() - num_args - 1; }
  // Whether they do the same with a model.
  friend bool same(const StepProgram&, const StepProgram&);

 private:
  struct Border {  // the model, and the types of its arguments and results
    const Model& model;
    Avals arguments, results;
  };
  static StepProgram record(const Border&, const StepFunction&, std::span<const Aval> slices,
                            std::optional<std::int64_t> window, bool plain,
                            std::optional<std::int64_t> samples);
};

// A function of one step, for windows.
StepFunction in_windows(StepProgram step);

// Plans -----------------------------------------------------------------------------------------------------
// A program covers one step or one window of K steps, never a whole sequence: the host loops over windows,
// and any length is the same few programs.

// What a program of one window is made for.
struct WindowForm {
  std::optional<std::int64_t> steps = {};    // none: one step, and no time axis anywhere
  bool weighted = false;                     // takes a weight per step; else every step counts once
  std::optional<std::int64_t> samples = {};  // weighted: per sample, [K, B]
  bool freeze = false;                       // steps of weight zero change neither states nor traces
  Reduction reduction = Reduction::Mean;     // over the weights, where parameters are updated
  std::optional<Aval> modulator = {};        // for rules that take one
  bool modulator_per_step = false;           // it has a time axis
  bool modulator_by_group = false;           // it is [n]: of every group, one behind the other
};
struct EvolveForm {
  std::optional<std::int64_t> steps = {};  // none: one step
  std::vector<bool> many = {};             // per argument: [K, …]; empty: all, if there are steps
  std::optional<std::int64_t> samples = {};
  bool freeze = false;  // takes weights
};

// Steps of the windows that a sequence of `length` is run in, one after the other: as many of `window` as
// fit, then shorter ones of a small fixed set (1, 2, 3, 4, 6, 8, 12, 16, 24 …), so that the number of
// programs does not depend on the number of lengths.
std::vector<std::int64_t> window_lengths(std::int64_t length, std::int64_t window);

// What a program of the model alone is made for.
struct SequenceForm {
  std::optional<std::int64_t> steps = {};  // none: one step, and no time axis anywhere
  bool weighted = false;                   // takes a weight per step; else every step counts once
  bool by_origin = false;  // gradients split by the step at which the parameter acted: [K, …]
};

// Programs of a model without a learning rule: forward passes, scores, reference gradients. They run the
// model's program as it came in and know nothing of groups, relations and traces. Ports of parameters and
// states have the names that a learner's have.
class ModelPlan {
 public:
  explicit ModelPlan(const Model&);  // the model must outlive it

  const Model& model() const { return model_; }
  // Every parameter leaf and every state: its port, and the value that the model starts with.
  struct Start {
    Port port;
    Tensor value;
  };
  const std::vector<Start>& params() const { return params_; }
  const std::vector<Start>& states() const { return states_; }

  // (params, states, arguments) -> (results, states)
  Program forward(std::optional<std::int64_t> steps) const;
  // (params, states, slices) -> (losses, aux, states)
  Program forward(const StepProgram&, std::span<const Aval> slices, const SequenceForm&) const;
  // (params, states, slices[, weights]) -> (losses, aux, states, gradients): of Σ weight·loss over all steps,
  // by reverse mode, for every floating parameter.
  Program bptt(const StepProgram&, std::span<const Aval> slices, const SequenceForm&) const;
  // (params, states, slices) -> (gradient of one parameter leaf): the same by forward mode, which carries the
  // influence of each of its elements on every state along.
  Program rtrl(const StepProgram&, std::span<const Aval> slices, const SequenceForm&, std::size_t leaf) const;

 private:
  std::vector<Port> ports() const;
  const Model& model_;
  std::vector<Start> params_, states_;
};

// How a single-step learner runs sequences.
struct ExecutionChoice {
  std::int64_t window = 32;                      // steps at once
  std::int64_t trace_bytes = 0, kept_bytes = 0;  // traces; what a window keeps of each of its steps
  std::string reason;
  std::string to_string() const;
};

// The programs of a learner for one loss, as `etrace plan` shows them.
struct LearnerPlan {
  // init, evolve, evolve_window, step, window, solve; with an optimiser also train_step, train_window,
  // update. For windows of one step: init, evolve, step, window_of_one, train_step, update, solve.
  std::vector<Program> programs;
  const Program& at(std::string_view name) const;  // ValueError lists the names
};

class PlanBuilder {
 public:
  PlanBuilder(const ETraceGraph&, const LearningRule&, VjpMethod);  // the graph must outlive it
  ~PlanBuilder();

  const ETraceGraph& graph() const;
  const BoundRule& rule() const;
  VjpMethod method() const;
  std::vector<TraceSlot> memory() const;  // slots of the rule, then age and calls

  // Types of one step's slices. The step function of a multi-step learner sees `chunk` steps at a time, or
  // one step without one; ValueError for a chunk that the method does not take.
  StepProgram objective(const StepFunction&, std::span<const Aval> slices,
                        std::optional<std::int64_t> chunk = {},
                        std::optional<std::int64_t> samples = {}) const;

  // As recorded; lean() is what runs.
  // Steps that a single-step learner runs at once, from the sizes of traces and states, or `wanted`.
  // ValueError if traces and window take more than memory_limit bytes.
  ExecutionChoice execution(std::optional<std::int64_t> wanted = {},
                            std::optional<std::int64_t> memory_limit = {}) const;
  Program init(std::uint64_t seed = 0) const;           // () -> traces
  Arrays initial_memory(std::uint64_t seed = 0) const;  // what init() gives, without a program
  // (params, states, traces, arguments[, weights]) -> (results, states, traces)
  Program evolve(const EvolveForm&) const;
  // (params, states, traces, slices, weights[, modulator]) -> (losses, aux, states, traces, gradients)
  Program gradient(const StepProgram&, std::span<const Aval> slices, const WindowForm&) const;
  // The same with sums of gradients that are carried on: they come in and go out.
  Program window(const StepProgram&, std::span<const Aval> slices, const WindowForm&) const;
  // (params, states, traces, slots, hyperparameters, slices, weights) -> (losses, aux, states, traces,
  // params, slots): a window, and the update after it.
  Program train(const StepProgram&, std::span<const Aval> slices, const WindowForm&,
                const optim::Optimizer&) const;
  // (params, slots, hyperparameters, sums of gradients, their weight) -> (params, slots, sums at zero)
  Program update(const optim::Optimizer&, Reduction) const;
  // (params, traces, signal of every group) -> (gradients)
  Program solve() const;
  // For rules with an estimate of what comes after a window (DNI): one step of the regression that fits it.
  // (params, states, parameters of the rule, slots, hyperparameters, age, slices) -> (error, parameters of
  // the rule, slots, states, age); fit_end() is the one at the end of a sequence, where nothing comes later.
  Program fit(const StepProgram&, std::span<const Aval> slices, const optim::Optimizer&) const;
  Program fit_end(const StepProgram&, const optim::Optimizer&) const;

  // All of them for one loss: windows of `steps`, an optimiser for those that update (none: left out).
  // `modulator`: its type, for rules that take one; none: that of the one that stands.
  LearnerPlan plan(const StepFunction&, std::span<const Aval> slices, std::int64_t steps,
                   const optim::Optimizer* = nullptr, std::optional<Aval> modulator = {},
                   bool modulator_by_group = false) const;

  struct Impl;  // private to learn/

 private:
  std::unique_ptr<Impl> impl_;
};

// The same program, simplified: nothing computed twice, nothing unused.
Program lean(Program);

}  // namespace etrace
#pragma GCC visibility pop
