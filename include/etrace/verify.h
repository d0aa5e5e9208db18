// Is the gradient right, and how far back does credit reach? A rule runs beside reverse mode over the whole
// sequence (BPTT), and what it gives is measured for every parameter, for single steps and for windows of
// several lengths, and lag by lag. What theory promises for this graph and rule stands beside what was found.
//
//   const VerifyReport report = verify(model, D_RTRL{}, inputs, targets, loss::mse);
//   std::cout << report.to_string();
//   if (!report.met()) …            // something that must be exact is not
#pragma once

#include "etrace/learner.h"

#pragma GCC visibility push(default)
namespace etrace {

struct VerifyOptions {
  // Steps of the windows of multi-step runs; one at the end may be shorter. Empty: 1, 2, 5, T/2 and T. The
  // window T is reverse mode and says nothing about the rule.
  std::vector<std::int64_t> windows = {};
  std::int64_t lags = 32;           // steps back that the loss of the last step is followed; 0: not at all
  bool finite_differences = false;  // BPTT against central differences, at most 64 entries per leaf
  bool full_rtrl = false;           // BPTT against forward mode with the dense influence matrix
  std::int64_t max_influence = std::int64_t{1} << 22;  // numbers of that matrix; more is refused
  ControlFlowPolicy control_flow = {};
  // Single steps or windows alone; NotSupportedError if the rule cannot. None: whatever the rule can.
  std::optional<VjpMethod> method = {};
  // Braintrace: the reference system's decisions, known faults included; theory then says nothing.
  Compat compat = Compat::None;
  std::string backend = "interpreter";  // of the rule's own runs; the references are interpreted
  // The same model recorded without calls of jit, by which the model is checked; null: it holds none. It must
  // outlive the call.
  const Model* as_written = nullptr;
};

// How close a gradient is to the reference.
struct Agreement {
  double deviation = 0.0;       // ‖a − b‖ / ‖b‖; infinite if only b is zero
  double cosine = 0.0;          // NaN if one of them is zero
  double norm_ratio = 0.0;      // ‖a‖ / ‖b‖; NaN if b is zero
  double sign_agreement = 0.0;  // share of the entries of b beyond 1e-8; NaN if there are none
};
Agreement agreement(const Tensor& gradient, const Tensor& reference);  // ValueError for unequal shapes

// What theory says about one parameter.
enum class Expectation : std::uint8_t {
  Exact,
  Approximate,          // a way that matters is lost; there are values for which it was seen
  PossiblyApproximate,  // one is lost of which values decide whether it matters
  NoStatement,
};
std::string_view name(Expectation);  // "exact", "approximate", "possibly approximate", "no statement"

struct ExpectedGradient {
  Expectation expectation = Expectation::NoStatement;
  std::string reason;                // all of them in one text
  std::vector<std::string> reasons;  // one by one
};
// For one parameter leaf: step by step, and in windows shorter than the sequence.
struct LeafExpectation {
  ExpectedGradient single_step, windows;
};
// In the order of param_leaf_ids(). The graph must have been compiled as the rule configures it.
std::vector<LeafExpectation> expected_gradients(const ETraceGraph&, const LearningRule&);

enum class Verdict : std::uint8_t {
  Met,       // expected to be exact, and is
  Broken,    // expected to be exact, and is not
  Measured,  // not expected to be exact
  NotAlive,  // the reference gradient is zero: nothing was tested
};
std::string_view name(Verdict);  // "met", "broken", "measured", "not alive"

struct VerifyReport {
  struct Measure : Agreement {
    std::int64_t window = 0;  // 0: single-step mode
    Expectation expected = Expectation::NoStatement;
    Verdict verdict = Verdict::Measured;
  };
  // Of the loss of the last step: the part of its gradient from the parameter's action `lag` steps before.
  struct Lag {
    std::int64_t lag = 0;
    double bptt = 0.0, online = 0.0;  // norms
    double cosine = 0.0;              // between the two; NaN if one is zero
  };
  struct Leaf {
    ParamLeafId id;
    Shape shape;
    double norm = 0.0;   // of the BPTT gradient
    bool alive = false;  // norm > 1e-8
    // The narrowest type on the way from the parameter to the loss; it decides what counts as exact.
    Dtype dtype = Dtype::F64;
    double tolerance = 0.0, oracle_tolerance = 0.0;
    std::string differences_exempt;  // why finite differences are not judged; empty: they are
    LeafExpectation expected;
    std::vector<Measure> measures;  // single-step mode, then the windows
    std::vector<Lag> credit;        // lags ascending from 0
    // Steps back, the last included, that hold the gradient up to 10 %; none: more than was looked at, or
    // there is no gradient.
    std::optional<std::int64_t> bptt_horizon = {}, online_horizon = {};
    std::optional<double> finite_differences = {}, full_rtrl = {};  // deviation of BPTT from these
    // BPTT is that of the function as it was written. How far that of the program that learns is from it;
    // and how far its slope along one direction is from differences of the function, where it is smooth.
    double as_recorded = 0.0;
    std::optional<double> slope = {};
  };

  std::string model, rule;
  std::int64_t steps = 0;
  Dtype dtype = Dtype::F64;
  double tolerance = 0.0;         // deviation below which a gradient counts as exact, in the model's type
  double oracle_tolerance = 0.0;  // the same for finite differences of BPTT
  double loss = 0.0;              // summed over the sequence
  bool surrogate = false;         // some parameter is exempt from finite differences
  std::string scopes;             // what other scopes keep of what this one leaves out, and their cost
  std::vector<Leaf> leaves;

  // Every statement of theory once, with the leaves (by index) that it holds for.
  struct Reason {
    Expectation expectation = Expectation::NoStatement;
    bool single_step = false, windows = false;  // where it holds
    std::string text;
    std::vector<std::size_t> leaves;
  };
  std::vector<Reason> reasons() const;

  // Something was compared, nothing that was expected to be exact is broken, and the oracles agree.
  bool met() const;
  std::vector<std::string> failures() const;  // what is not met, a sentence each
  std::string to_string() const;              // tables of at most 100 columns
  std::string to_json() const;                // everything ("format": "etrace.verify")
  std::string to_html() const;                // one page with plots that loads nothing
};

// From a traced step (or a model file). Sequences have time first, one per slice of the step function, which
// sees single steps. ValueError for a window below 1 and for a loss or gradient that is not finite;
// NotSupportedError if the dense influence matrix of a parameter is larger than max_influence; errors of
// Learner.
VerifyReport verify(const Model&, const LearningRule&, ArraySpan sequences, const StepFunction&,
                    const VerifyOptions& = {});
// The model as it stands: its states are the start of the sequence. It is left as it was.
VerifyReport verify(Module&, const LearningRule&, const Array& inputs, const Array& targets, const Loss&,
                    const VerifyOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
