// Judges the gradients that learning rules give on a model, against references that know nothing of groups,
// relations and traces:
//   RTRL   E ← ∂h'/∂h·E + ∂h'/∂θ, grad = Σ_t ∂L/∂h·E + ∂L/∂θ, with dense Jacobians of one step by
//          reverse mode
//   BPTT   reverse mode through the whole sequence
// and, along one direction, forward mode and, where the model is smooth, finite differences. What `verify`
// expects of every leaf must be met: what is called exact is so to 1e-9, what is called approximate is not
// exact on every draw of values, single steps give the same gradient for every execution window, and nothing
// fails but with a typed refusal. At the first step there is no past, so whatever a rule makes of the past,
// its gradient is that of BPTT, unless it learns from a signal of its own or from random numbers.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "etrace/learner.h"
#include "etrace/verify.h"

namespace etrace::testing {

using Numbers = std::vector<double>;

// Values ----------------------------------------------------------------------------------------------------
// The model with its initial values, and what it is driven with.
struct ValueDraw {
  Arrays states, params;  // in the order of the inputs
  Arrays sequences;       // arguments, then targets, each with time first
  Numbers weights{};      // of the losses, one per step; empty: ones
  bool freeze = false;    // steps of weight zero do not count: states stay as they are
  double weight(std::int64_t t) const { return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(t)]; }
  std::int64_t steps() const { return sequences.front().shape()[0]; }
};
// Draw 0 has the model's own values.
ValueDraw draw_values(const Model&, std::int64_t steps, std::uint64_t draw);

// References ------------------------------------------------------------------------------------------------
struct ReferenceGradient {
  double loss = 0.0;
  std::vector<Numbers> leaves;
  Numbers magnitude;  // per leaf: norm of the sum of absolute values, which bounds rounding
  bool finite() const;
};
// Both for the loss Σ_t Σ (result − target)²; made once, run for several draws.
class DenseRtrl64 {
 public:
  explicit DenseRtrl64(const Model&);
  ~DenseRtrl64();
  ReferenceGradient operator()(const ValueDraw&) const;
  // What of each step's gradient passes no new hidden state: all that is left without a learning signal.
  ReferenceGradient beside_states(const ValueDraw&) const;
  // The loss alone, for other parameters.
  double loss(const ValueDraw&) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
ReferenceGradient reverse_mode(const Model&, const ValueDraw&);
// The derivative of the loss along a random direction v, against ⟨g, v⟩.
struct Difference {
  double found = 0.0, error = 0.0;                             // and what it may be wrong by
  double expected = 0.0, size = 0.0;                           // ⟨g, v⟩, and what counts as large
  bool differentiable() const { return error < 1e-6 * size; }  // as far as differences can tell
  double deviation() const { return std::abs(found - expected) / size; }
  bool contradicts() const {
    return differentiable() && !(std::abs(found - expected) <= error + 1e-9 * size);
  }
};
// By differences: the central one, of the step size where it is surest. Those from the two sides, of lower
// order, say what is left of the stencils' errors, and differ where the loss has a kink or a jump; what
// rounding does is measured.
Difference difference_along(const DenseRtrl64&, const ValueDraw&, const ReferenceGradient&,
                            std::uint64_t seed);
// By forward mode through the whole sequence. NotSupportedError where a function has no tangents.
Difference forward_mode(const Model&, const ValueDraw&, const ReferenceGradient&, std::uint64_t seed);

// Rules -----------------------------------------------------------------------------------------------------
struct RuleChoice {
  std::string label;  // "SnAp n=1"
  std::string row;
  RuleOptions options;
  std::shared_ptr<const LearningRule> rule;
  std::string same_as;     // label of the rule that this one must equal
  bool no_signal = false;  // nothing may come through states
};
// Every row of the table, with options that let it show what it does.
std::vector<RuleChoice> rule_choices();

struct RunMethod {
  VjpMethod vjp = VjpMethod::SingleStep;
  std::int64_t window = 1;  // single steps: of execution
  enum How : std::uint8_t {
    Sequence,
    Parts,  // in two calls, of which the second goes on from the first
    Host,   // step by step by Learner::step
  } how = Sequence;
  std::string text() const;
};

// Judgement -------------------------------------------------------------------------------------------------
enum class Fault : std::uint8_t {
  FalseExact,        // called exact, is not
  FalseApproximate,  // called approximate, is exact on every draw
  WindowDependent,   // single steps depend on the execution window, or on who calls them
  NotReverseMode,    // a window of the whole sequence is not BPTT
  FirstStep,         // the first step, before which there is no past, is not BPTT
  UnequalRules,      // two names of one rule differ
  LearnsFromLoss,    // something comes through states without a learning signal
  BrokenError,       // an InternalError, or an exception of no type of ours
  UntypedRefusal,    // an error that refuses but is no refusal: ValueError and the like
  NotFinite,         // a gradient that is not finite where the reference is
  References,        // RTRL, BPTT, forward mode or differences disagree
  Crash,             // the process ended (found by whoever started it)
};
std::string_view name(Fault);

struct Finding {
  Fault fault = Fault::FalseExact;
  std::string rule, method, leaf, text;
  RunMethod run{};
  double deviation = 0.0;
  std::uint64_t draw = 0;
};
std::string to_string(const Finding&);
// What two findings of one cause have in common: the fault, and the text without names and numbers.
std::string class_of(const Finding&);

struct JudgeOptions {
  std::vector<RuleChoice> rules;
  std::vector<RuleChoice> first_step;  // further rules, of which the first step alone is judged
  std::vector<std::int64_t> execution_windows = {1, 2, 3}, windows = {2, 3};
  bool whole_sequence = false;            // a window of all steps as well
  bool in_parts = false;                  // single steps also in two calls
  bool by_host = false;                   // single steps also by Learner::step; not if weighted
  bool weighted = false, freeze = false;  // of losses per step, some of them zero
  int draws = 400;                        // of values, where one is not enough
  bool by_reverse_mode = true;            // the second reference
  bool by_forward_mode = true;            // the third
  bool differences = false;               // the fourth
  std::int64_t steps = 7;
  ControlFlowPolicy policy{};
  std::string backend = "interpreter";
};
struct Judgement {
  std::vector<Finding> findings;
  // Leaves × methods that were compared, by what is said of them; dead: there is no gradient.
  std::size_t exact = 0, approximate = 0, possibly = 0, no_statement = 0, dead = 0;
  std::size_t first_steps = 0;             // leaves × methods
  std::size_t differences = 0, kinks = 0;  // models judged by the fourth reference; not differentiable
  std::size_t refused = 0;                 // rules × methods
  bool not_finite = false;                 // the reference: nothing was judged
  std::vector<std::string> refusals;
};
// Changes a gradient before it is judged; for tests of the judge.
using Tamper = std::function<void(const RuleChoice&, const RunMethod&, ParamValues&)>;
Judgement judge(const Model&, const JudgeOptions&, const Tamper& = {});
// The judge of one finding alone: its rule, its method.
JudgeOptions only(const Finding&, const JudgeOptions&);

}  // namespace etrace::testing
