// What a learner holds. Private to learn/.
#pragma once

#include <deque>

#include "etrace/backend.h"
#include "etrace/learner.h"

namespace etrace {

// A value of the model: a leaf of one of its states, or the learner's own.
struct ModelLeaf {
  std::string name;  // "rnn/h", "rnn/W/weight.bias"
  std::shared_ptr<State> state = nullptr;
  std::size_t leaf = 0;
  Tensor own, init;  // used without a state
  bool survives_reset = false;

  Tensor get() const;
  void set(const Tensor&);
};

// A program on its backend.
struct Loaded {
  Program program;
  std::shared_ptr<const Runnable> code;
};

class HostStep;

struct Learner::Impl {
  Impl(ETraceGraph g, const LearningRule& r, LearnerOptions o);
  ~Impl();

  Arrays params_now() const;

  // The program of this key; made if it is not there. The oldest make room. A step function is found again by
  // its identity or, if it is new, by the program that it is traced to.
  const Loaded& program(const std::string& key, const std::function<Program()>& make);
  struct KnownObjective {
    std::string key;
    std::shared_ptr<const StepFunction::Body> function;
    std::shared_ptr<const Objective> objective;
    std::size_t number;
  };
  const KnownObjective& objective(const StepFunction&, std::span<const Aval> slices, const SequenceForm&);
  std::size_t optimizer_number(const optim::Optimizer&);  // equal for optimisers that do the same
  StepFunction step_function(const Loss&, bool windows, bool per_sample);

  // Runs a program: what carries on comes from the learner and goes back to it, what is left of the arguments
  // is `data`. Results that are not carried come back, in order.
  struct Outcome {
    Tensors results;
    Tensors states, params, slots;  // new values; the learner's own are as before until commit()
  };
  Outcome run(const Loaded&, ArraySpan data, std::span<const Tensor> slots = {});
  void commit(const Outcome&);
  Program ready(Program) const;  // as it is compiled: lean, passes over traces as the options ask for
  Tensor& rule_param(std::string_view name);
  void forget_traces();  // after a result that is not finite

  ETraceGraph graph;
  std::shared_ptr<const LearningRule> rule;
  LearnerOptions options;
  PlanBuilder builder;
  ExecutionChoice execution;
  const Backend& backend;
  std::vector<ModelLeaf> params, states;
  Tensors memory;
  Array modulator;  // where a call gives none
  // What the rule's estimate was fitted for, by train_synthetic_gradient; none: nothing, or set by hand.
  struct FittedFor {
    ClosedJaxpr loss;
    std::int64_t window;
  };
  std::optional<FittedFor> fitted;
  void require_fitted_for(const char* what, const Objective&, const SequenceForm&) const;
  std::vector<std::shared_ptr<State>> resettable;  // the model's short-term states

  std::unique_ptr<HostStep> host;  // steps in real time; none: there were none

  struct Cached {
    std::string key;
    Loaded loaded;
  };
  std::deque<Cached> cache;
  std::deque<KnownObjective> objectives;
  std::size_t next_objective = 0;
  struct KnownOptimizer {
    std::shared_ptr<const ClosedJaxpr> update;
    std::size_t number;
  };
  std::deque<KnownOptimizer> optimizers;
  std::size_t next_optimizer = 0;
  struct KnownLoss {
    Array (*function)(const Array&, const Array&);
    bool windows, per_sample;
    StepFunction step;
  };
  std::deque<KnownLoss> losses;
};

// The optimiser must move the parameters of this learner and no others: ValueError otherwise.
void require_same_parameters(const char* what, const optim::Optimizer&, const std::vector<ModelLeaf>& params);

}  // namespace etrace
