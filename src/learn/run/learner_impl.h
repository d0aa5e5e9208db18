// What a learner holds. Private to learn/.
#pragma once

#include <deque>
#include <list>

#include "core/workspace.h"
#include "etrace/learner.h"
#include "learn/run/label_check.h"
#include "session/session.h"

namespace etrace {

class HostStep;

// A state of the model as the learner knows it.
struct KnownState {
  std::string name;  // "rnn/h", "rnn/W/weight.bias"
  Tensor init;
  bool own = true;  // not a module's: the learner resets it
  bool survives_reset = false;
};

struct Learner::Impl {
  Impl(ETraceGraph g, const LearningRule& r, LearnerOptions o);
  ~Impl();

  // Values, by name.
  Arrays params_now();  // in the order of param_leaf_ids
  Arrays memory_now();  // in the order of builder.memory()
  std::string param_name(const ParamLeafId& id) const { return to_string(id); }
  const TraceSlot& rule_param(std::string_view name) const;  // ValueError lists them
  void forget_traces();
  std::int64_t counter(const char* name) { return session.integer(PortRole::Counter, name); }
  void zero_sums();

  // Moves on without learning: arguments with a time axis in windows. `calls`: how often a multi-step learner
  // was called thereby; `first`: the number of the first step, for errors; windows with bad steps are left
  // out.
  struct Course {
    std::int64_t length, calls, first = 0;
    std::vector<bool> bad = {};
  };
  Arrays evolve(const char* what, ArraySpan args, const Array& weights, EvolveForm, const Course&);
  // What `found` would have carried on is not finite: an error or, on request, counted.
  void say_not_finite(const char* what, const std::string& found);
  // The same for a sum of gradients, of which nobody knows before, and for single elements of what an update
  // makes: numbers have overflowed. Traces that did so start anew.
  void say_overflow(const char* what, const std::string& found);
  void say_left_out(const char* what, const std::string& found);
  std::string forget_overflowed();  // the end of a sentence: which

  std::shared_ptr<const Runnable> compile(const Program& p) const {
    return compile_in(workspace, backend, p);
  }
  // The program of this key, bound to the session; made if it is not there. The one that was not used for
  // longest makes room.
  Launch& launch(const std::string& key, const std::function<Program()>& make);
  Launch& launch(const auto& known) { return launch(known.key, known.make); }
  // A step function is found again by its identity or, if it is new, by the program that it is traced to.
  struct KnownObjective {
    std::string key;
    std::shared_ptr<const StepFunction::Body> function;
    std::shared_ptr<const StepProgram> program;
    std::shared_ptr<const LabelCheck> labels;
    std::size_t number;
  };
  const KnownObjective& objective(const StepFunction&, std::span<const Aval> slices,
                                  std::optional<std::int64_t> chunk, std::optional<std::int64_t> samples);
  std::size_t optimizer_number(const optim::Optimizer&);  // equal for optimisers that do the same
  StepFunction step_function(const Loss&, bool windows, bool per_sample);
  Program ready(Program) const;  // as it is compiled: lean, passes over traces as the options ask for

  ETraceGraph graph;
  std::shared_ptr<const LearningRule> rule;
  LearnerOptions options;
  PlanBuilder builder;
  ExecutionChoice execution;
  const Backend& backend;
  std::shared_ptr<Workspace> workspace = std::make_shared<Workspace>();  // one program runs at a time
  std::vector<ParamLeafId> params;
  std::vector<KnownState> states;
  std::vector<TraceSlot> memory;  // slots of the rule and counters
  Session session{backend.memory()};
  Array modulator;  // where a call gives none
  bool modulator_by_group = false;
  // Those of all groups, as a program takes them: [n], or MultiStepData [T, n] if one of them has steps.
  StepInput packed(const char* what, std::span<const GroupModulator>) const;
  // What the rule's estimate was fitted for, by train_synthetic_gradient; none: nothing, or set by hand.
  struct FittedFor {
    StepProgram loss;
    std::int64_t window;
  };
  std::optional<FittedFor> fitted;
  void require_fitted_for(const char* what, const StepProgram&) const;
  std::vector<std::shared_ptr<State>> resettable;  // the model's short-term states
  std::vector<std::shared_ptr<State>>
      param_states;          // of the model; empty: the parameters are the learner's own
  std::int64_t skipped = 0;  // windows that were not finite and changed nothing

  std::unique_ptr<HostStep> host;  // steps in real time; none: there were none

  struct Cached {
    std::string key;
    Launch launch;
  };
  std::list<Cached> launches;  // the newest first
  std::deque<KnownObjective> objectives;
  std::size_t next_objective = 0;
  struct KnownOptimizer {
    std::shared_ptr<const ClosedJaxpr> update;
    std::size_t number;
  };
  std::deque<KnownOptimizer> optimizers;
  std::size_t next_optimizer = 0;
  struct KnownLoss {
    Loss::OfOne* function;
    bool windows, per_sample;
    StepFunction step;
  };
  std::deque<KnownLoss> losses;
};

// The optimiser must move the parameters of this learner and no others: ValueError otherwise.
void require_same_parameters(const char* what, const optim::Optimizer&,
                             std::span<const std::shared_ptr<State>> params);

// Numbers that are not finite would go into states and traces. `where` says in words what they are.
void require_finite(const char* what, const std::string& where, const Tensor&);

}  // namespace etrace
