// From a graph to learning: what a step yields for the traces, how traces move, and how they become
// gradients. Everything here works on Arrays and so can be recorded into one program.
//
//   e ← D·e + ∂h/∂y · ∂y/∂θ        trace of one relation into one group
//   grad θ = Σ_groups ⟨∂L/∂h, e⟩     contraction with the learning signal
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etrace/compiler.h"

namespace etrace {

// What one step gives to the traces (all detached from differentiation).
struct StepData {
  Arrays params;                 // per parameter leaf, in order of param_leaves()
  std::vector<Arrays> operands;  // per relation: values of the equation's operands; undefined: not there
  std::vector<Arrays> df;        // per relation and group: ∂h/∂y with an all-ones tangent, [*varshape, S]
  Arrays jacobians;              // per group: D, [*varshape, S', S']
};

// Values around one step: the program's inputs in order, and what follows from them.
struct StepValues {
  Arrays inputs;   // of the module's program
  Arrays outputs;  // results of the step
  Arrays states;   // new values of hidden and other states, in input order
  StepData data;
};

// Runs the model forward and computes what the traces need.
class ETraceGraphExecutor {
 public:
  explicit ETraceGraphExecutor(const ETraceGraph& graph);
  const ETraceGraph& graph() const { return *graph_; }

  // One step: outputs, new states, x, df and D.
  StepValues solve_h2w_h2h_jacobian(ArraySpan inputs) const;

 private:
  const ETraceGraph* graph_;
};

// How the learning signal of a step is formed.
struct StepGradient {
  Array loss;
  Arrays outputs, states;
  Arrays group_signal;  // per group: dL/dh, [*varshape, S]
  Arrays
      instantaneous;  // per parameter leaf: the gradient that does not pass through a trace; undefined: none
};
using StepLoss = std::function<Array(ArraySpan outputs)>;

// Adds reverse mode: the loss of one step back to its hidden states.
class ETraceVjpGraphExecutor : public ETraceGraphExecutor {
 public:
  ETraceVjpGraphExecutor(const ETraceGraph& graph, Compat compat)
      : ETraceGraphExecutor(graph), compat_(compat) {}
  StepGradient solve_h2w_h2h_l2h_jacobian(ArraySpan inputs, const StepLoss& loss) const;

 private:
  Compat compat_;
};

// A learning rule: traces, how they move, how they become gradients. One file per rule.
class LearningRule {
 public:
  virtual ~LearningRule() = default;
  virtual std::string name() const = 0;
  virtual CompileOptions compile_options() const { return {}; }  // the recurrence scope
  // One array per trace slot, zero at the start of a sequence.
  struct Slot {
    std::string name;  // "relation0/group0/weight"
    Aval aval;
  };
  virtual std::vector<Slot> slots(const ETraceGraph&) const = 0;
  virtual Arrays roll(const ETraceGraph&, const StepData&, ArraySpan traces) const = 0;
  // Gradient of every parameter leaf (in order of the module's weights); undefined where there is none. `age`
  // counts the steps that the traces have seen.
  virtual Arrays solve(const ETraceGraph&, const StepData&, ArraySpan signal, ArraySpan traces,
                       const Array& age) const = 0;
};

struct RuleOptions {
  Compat compat = Compat::None;
};
std::unique_ptr<LearningRule> d_rtrl(const RuleOptions& = {});          // scope diagonal
std::unique_ptr<LearningRule> ostl_recurrent(const RuleOptions& = {});  // the same in scope coupled
// Decays of the input and the output side; a rank r means (r-1)/(r+1).
struct PpPropOptions {
  double decay_x = 0.9, decay_f = 0.9;
  Compat compat = Compat::None;
};
std::unique_ptr<LearningRule> pp_prop(const PpPropOptions&);

// Parameter leaves in the order that gradients come in.
struct ParamLeaf {
  StatePath path;
  std::int64_t leaf;
  std::size_t input;  // position among the program's inputs
};
std::vector<ParamLeaf> param_leaves(const ModuleInfo&);

}  // namespace etrace
