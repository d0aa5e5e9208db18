// The executor: one step of a compiled graph with everything that eligibility traces need, and its loss back
// to the hidden states. All of it works on Arrays and so can be recorded into a program. Learners are in
// etrace/learner.h, rules in etrace/rules.h; this is for who wants the pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "etrace/compiler.h"
#include "etrace/param_values.h"

#pragma GCC visibility push(default)
namespace etrace {

// Inputs of a call: unwrapped and SingleStepData are used unchanged at every step, axis 0 of MultiStepData is
// time.
struct SingleStepData {
  Array value;
};
struct MultiStepData {
  Array value;
};
using StepInput = std::variant<Array, SingleStepData, MultiStepData>;
// The common length of all multi-step inputs; none if there are none. ValueError names unequal lengths.
std::optional<std::int64_t> multi_step_length(std::span<const StepInput>);
const Array& value_of(const StepInput&);

// Parameter leaves in the order that gradients come in: that of the program's inputs.
struct ParamLeaf {
  StatePath path;
  std::int64_t leaf;
  std::size_t input;  // position among the program's inputs
  std::string key;
};
std::vector<ParamLeaf> param_leaves(const ModuleInfo&);
std::vector<ParamLeafId> param_leaf_ids(const ModuleInfo&);

// The executor ----------------------------------------------------------------------------------------------
// What one step gives to the traces (all detached from differentiation).
struct StepData {
  Arrays params;                    // per parameter leaf, in order of param_leaves()
  std::vector<Arrays> operands;     // per relation: values of the equation's
                                    // operands; undefined: not there
  std::vector<Arrays> df;           // per relation and group: ∂h/∂y with an all-ones
                                    // tangent, [*varshape, S]
  Arrays jacobians;                 // per group: D, [*varshape, M, M]; inside a descended loop
                                    // of length L all three have a leading axis L
  std::vector<Arrays> transitions;  // per group: its states at entry, then the constants of its
                                    // transition_jaxpr, for products with the whole transition
  // Per composite relation: its operands, and per group ∂h/∂y of all pairs, [*varshape, S, positions of y];
  // of one sample's y where y has the samples of the group.
  std::vector<Arrays> composite_operands, composite_df;
};

// Values around one step, or around several (then with a leading time axis on outputs and data).
struct StepValues {
  Arrays outputs;  // results of the step
  Arrays states;   // new values of hidden and other states, in input order
  StepData data;
};

// The transpose of a linearised step or window; may be applied any number of times.
class BackwardMap {
 public:
  struct Cotangents {
    Arrays args, states;   // of the inputs
    Arrays params;         // several steps: every parameter; one step: none
    Arrays perturbations;  // one step: one per hidden state, ∂L/∂h; several
                           // steps: none
  };
  // Undefined cotangents count as zero. ValueError for a wrong number, TypeError for a wrong type.
  Cotangents operator()(ArraySpan outputs, ArraySpan states) const;

 private:
  friend class ETraceVjpGraphExecutor;
  ClosedJaxpr transposed_;  // (residuals…, ct of outputs…, ct of states…) ->
                            // cotangents of the inputs
  Arrays residuals_;
  Avals outputs_, states_;
  std::size_t num_args_ = 0, num_states_ = 0, num_params_ = 0;  // then perturbations
  std::vector<bool> active_;                                    // inputs that have a cotangent
};

// Runs the model forward and computes what the traces need.
class ETraceGraphExecutor {
 public:
  explicit ETraceGraphExecutor(const ETraceGraph& graph) : graph_(&graph) {}
  const ETraceGraph& graph() const { return *graph_; }

  // One step: outputs, new states, x, df and D. `inputs` are those of the module's program.
  StepValues solve_h2w_h2h_jacobian(ArraySpan inputs) const;
  // Arguments, states and parameters apart; several steps if there is multi-step data.
  StepValues solve_h2w_h2h_jacobian(std::span<const StepInput> args, ArraySpan states,
                                    ArraySpan params) const;

  // The program's inputs from their parts; states and parameters in the program's order.
  Arrays program_inputs(ArraySpan args, ArraySpan states, ArraySpan params) const;

 private:
  const ETraceGraph* graph_;
};

// Adds reverse mode: the loss of one step back to its hidden states.
class ETraceVjpGraphExecutor : public ETraceGraphExecutor {
 public:
  using ETraceGraphExecutor::ETraceGraphExecutor;

  struct Linearized {
    StepValues values;
    BackwardMap backward;
  };
  // One step (the perturbed program) or several (the whole window, parameters included).
  Linearized solve_h2w_h2h_l2h_jacobian(std::span<const StepInput> args, ArraySpan states,
                                        ArraySpan params) const;
};

}  // namespace etrace
#pragma GCC visibility pop
