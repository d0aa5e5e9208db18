// From a graph to learning: what a step yields for the traces, how traces move, and how they become
// gradients. Everything here works on Arrays and so can be recorded into one program.
//
//   e ← D·e + ∂h/∂y · ∂y/∂θ        trace of one relation into one group
//   grad θ = Σ_groups ⟨∂L/∂h, e⟩     contraction with the learning signal
//
// A user starts with etrace/learner.h, the author of a rule with LearningRule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etrace/compiler.h"
#include "etrace/param_values.h"

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
  Arrays params;                 // per parameter leaf, in order of param_leaves()
  std::vector<Arrays> operands;  // per relation: values of the equation's
                                 // operands; undefined: not there
  std::vector<Arrays> df;        // per relation and group: ∂h/∂y with an all-ones
                                 // tangent, [*varshape, S]
  Arrays jacobians;              // per group: D, [*varshape, M, M]; inside a descended loop
                                 // of length L all three have a leading axis L
};

// Values around one step, or around several (then with a leading time axis on outputs and data).
struct StepValues {
  Arrays outputs;  // results of the step
  Arrays states;   // new values of hidden and other states, in input order
  StepData data;
};

// K steps side by side: each starts from its own entry state, so nothing of a step depends on another. Every
// array has a leading axis K; the parameters are shared.
struct StepBatch {
  std::int64_t steps = 1;
  Arrays args, states, params;
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

  // What K steps give to the traces, leading axis K; `keep` picks what the rule wants of each.
  using Keep = std::function<Arrays(const StepData&)>;
  struct StackedData {
    Arrays kept;
    std::vector<Arrays> df;
    Arrays jacobians;
  };
  StackedData step_data(const StepBatch&, const Keep& keep) const;

  // The program's inputs from their parts; states and parameters in the program's order.
  Arrays program_inputs(ArraySpan args, ArraySpan states, ArraySpan params) const;

 private:
  const ETraceGraph* graph_;
};

// The losses of K steps and what they say to the hidden states and the parameters.
struct StepGradients {
  Arrays group_signal;   // per group: dL/dh, [K, *varshape, S]
  Arrays entry_signal;   // the same for the state before each step, past the new ones; empty: none
  Arrays instantaneous;  // per parameter leaf, summed over the steps: the gradient that no trace carries
};
// (extra inputs of one step, its outputs) -> loss
using StepLoss = std::function<Array(ArraySpan extra, ArraySpan outputs)>;

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

  // Gradients of the sum of the steps' losses; extra [K, …]. By default a way between two states of one group
  // within the step counts once, parameters outside of every relation get the gradient of the step, and what
  // a loss reads of the old states counts; compat leaves all three out.
  StepGradients step_gradients(const StepBatch&, ArraySpan extra, const StepLoss& loss) const;
};

// Rules -----------------------------------------------------------------------------------------------------
enum class VjpMethod : std::uint8_t {
  SingleStep,  // the loss of each step meets the trace after it
  MultiStep,   // reverse mode inside a window, and the signal at its entry meets
               // the trace from before
};
std::string_view name(VjpMethod);  // "single-step"

// What K steps give to the traces: StepData with a leading axis K.
struct WindowData {
  std::int64_t steps = 1;
  Arrays params;
  std::vector<Arrays> operands;  // per relation, those that parameters determine; x is undefined
  Arrays kept;                   // what the rule kept of each step, stacked
  std::vector<Arrays> df;
  Arrays jacobians;
  Array active;      // [K] bool: steps that count; undefined: all
  Array age, calls;  // i32: active steps, and calls, before this window
};
// The learning signal, per group: to the state at the entry of the window, and to that after each step
// (leading axis K). Either list may be empty.
struct Signals {
  Arrays entry, each_step;
};

// A learning rule: traces, how they move, how they become gradients. One file per rule; rules are immutable.
class LearningRule {
 public:
  virtual ~LearningRule() = default;
  virtual std::string name() const = 0;
  virtual std::string describe() const { return name(); }  // with its options
  virtual std::shared_ptr<const LearningRule> clone() const = 0;
  virtual void configure(CompileOptions&) const {}  // the recurrence scope
  VjpMethod vjp_method() const { return vjp_method_; }

  // One array per trace slot, in the layout that the rule computes with; zero at the start of a sequence.
  struct Slot {
    std::string name;  // "relation0/group0/weight"
    Aval aval;
  };
  virtual std::vector<Slot> slots(const ETraceGraph&) const = 0;
  // The same values as documents show them, ([B], slots…, S), and back.
  virtual Array unpack(const ETraceGraph&, std::size_t slot, const Array& value) const = 0;
  virtual Array pack(const ETraceGraph&, std::size_t slot, const Array& value) const = 0;
  // Slots whose trace belongs to a parameter.
  virtual std::vector<std::size_t> slots_of(const ETraceGraph&, const StatePath& param) const = 0;

  // What has to be remembered of each step until the window is over.
  virtual Arrays keep(const ETraceGraph&, const StepData&) const = 0;
  struct Advanced {
    Arrays traces;
    Arrays gradients;  // per parameter leaf; undefined where there is none
  };
  virtual Advanced advance(const ETraceGraph&, const WindowData&, ArraySpan traces, const Signals&) const = 0;
  // Gradient for a signal that comes from elsewhere, with the traces as they are.
  virtual Arrays contract(const ETraceGraph&, const WindowData&, ArraySpan traces,
                          ArraySpan signal) const = 0;

 protected:
  explicit LearningRule(VjpMethod method = VjpMethod::SingleStep) : vjp_method_(method) {}
  LearningRule(const LearningRule&) = default;
  LearningRule& operator=(const LearningRule&) = default;

 private:
  VjpMethod vjp_method_;
};

struct ParamDimOptions {
  VjpMethod vjp_method = VjpMethod::SingleStep;
  std::optional<Dtype> trace_dtype = {};  // f16 or bf16 halve the traffic; sums stay in the model's type
};
// One trace per parameter element and output position; Jacobians without recurrent products.
class D_RTRL : public LearningRule {
 public:
  explicit D_RTRL(const ParamDimOptions& options = {}) : D_RTRL(options, false) {}
  std::string name() const override { return coupled_ ? "OSTLRecurrent" : "D_RTRL"; }
  std::string describe() const override;
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<D_RTRL>(*this); }
  void configure(CompileOptions&) const override;
  std::vector<Slot> slots(const ETraceGraph&) const override;
  Array unpack(const ETraceGraph&, std::size_t slot, const Array&) const override;
  Array pack(const ETraceGraph&, std::size_t slot, const Array&) const override;
  std::vector<std::size_t> slots_of(const ETraceGraph&, const StatePath&) const override;
  Arrays keep(const ETraceGraph&, const StepData&) const override;
  Advanced advance(const ETraceGraph&, const WindowData&, ArraySpan, const Signals&) const override;
  Arrays contract(const ETraceGraph&, const WindowData&, ArraySpan, ArraySpan) const override;

 protected:
  D_RTRL(const ParamDimOptions&, bool coupled);

 private:
  ParamDimOptions options_;
  bool coupled_;
};
using ParamDimVjpAlgorithm = D_RTRL;
// The same in scope `coupled`: the Jacobian's own blocks, recurrent products included.
class OSTLRecurrent : public D_RTRL {
 public:
  explicit OSTLRecurrent(const ParamDimOptions& options = {}) : D_RTRL(options, true) {}
  std::shared_ptr<const LearningRule> clone() const override {
    return std::make_shared<OSTLRecurrent>(*this);
  }
};

// A decay in [0, 1), or a rank r ≥ 1, which means (r-1)/(r+1).
class DecayOrRank {
 public:
  DecayOrRank(double decay);        // NOLINT: implicit on purpose
  DecayOrRank(int rank);            // NOLINT
  DecayOrRank(bool rank) = delete;  // a truth value is neither
  double decay() const { return decay_; }
  int rank() const;

 private:
  double decay_;
};
struct IODimOptions {
  DecayOrRank decay_or_rank;                         // of the output side, and of the input side unless …
  std::optional<DecayOrRank> input_decay_or_rank{};  // … this is given
  VjpMethod vjp_method = VjpMethod::SingleStep;
};
// The trace as a product of an input side and an output side, both low-pass filtered.
class pp_prop : public LearningRule {
 public:
  explicit pp_prop(const IODimOptions&);
  std::string name() const override { return "pp_prop"; }
  std::string describe() const override;
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<pp_prop>(*this); }
  std::vector<Slot> slots(const ETraceGraph&) const override;
  Array unpack(const ETraceGraph&, std::size_t slot, const Array&) const override;
  Array pack(const ETraceGraph&, std::size_t slot, const Array&) const override;
  std::vector<std::size_t> slots_of(const ETraceGraph&, const StatePath&) const override;
  Arrays keep(const ETraceGraph&, const StepData&) const override;
  Advanced advance(const ETraceGraph&, const WindowData&, ArraySpan, const Signals&) const override;
  Arrays contract(const ETraceGraph&, const WindowData&, ArraySpan, ArraySpan) const override;
  double decay_x() const { return decay_x_; }
  double decay_f() const { return decay_f_; }

 private:
  double decay_x_, decay_f_;
};
using ES_D_RTRL = pp_prop;
using IODimVjpAlgorithm = pp_prop;

// By name, for command lines and files: "d_rtrl", "ostl_recurrent", "pp_prop" (also "es_d_rtrl"), any case.
// ValueError lists the names.
struct RuleOptions {
  VjpMethod vjp_method = VjpMethod::SingleStep;
  std::optional<DecayOrRank> decay_or_rank = {}, input_decay_or_rank = {};
  std::optional<Dtype> trace_dtype = {};
};
std::shared_ptr<const LearningRule> make_rule(std::string_view name, const RuleOptions& = {});
std::vector<std::string_view> rule_names();

}  // namespace etrace
