// For authors of learning rules. A rule is one file: a class with the rule's options, what it does on a
// graph, and a row that command line, checks, reports and documents read. Start with LearningRule, then
// BoundRule; a rule with one trace per parameter composes etrace/parameter_traces.h. CONTRIBUTING.md shows a
// rule from begin to end.
//
//   e ← D·e + ∂h/∂y · ∂y/∂θ                                  trace of one relation into one group
//   grad θ = own step of θ + Σ_groups ⟨∂L/∂h, D·e⟩            the past meets the learning signal
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/executor.h"
#include "etrace/program.h"

#pragma GCC visibility push(default)
namespace etrace {

class ETraceConfig;  // etrace/config.h

enum class VjpMethod : std::uint8_t {
  SingleStep,  // reverse mode inside each step, and its signal meets the trace from before, moved by D
  MultiStep,   // reverse mode inside a window, and the signal at its entry meets the trace from before
};
std::string_view name(VjpMethod);  // "single-step"

// Where the own step of a parameter comes from in single-step mode: what its use in a step does to the loss
// of that step, with the states before the step held. What came before is the traces' business.
enum class OwnStep : std::uint8_t {
  ReverseMode,  // reverse mode of the step: every way within it counts once, for every parameter
  // The signal meets what the step adds to the rule's factors, from which it cannot be told apart; beside it
  // counts what passes no state. Reverse mode where these do not follow every way to a state (other groups,
  // other operators, mixed positions, uses without a trace), and for what shares a parameter with those.
  Factors,
  // The rule's own signal meets what the step adds to the traces; beside it counts what passes no state, and
  // nothing that does.
  Signal,
};

// Data of a window ------------------------------------------------------------------------------------------
// The own step of one relation, as a rule sees it.
struct OwnPart {
  bool meets_signal = true;  // signals meet D·e + f·x; else D·e alone
  // Without meets_signal: ∂L/∂y of each step [K, *y], which the rule takes on to the operator's parameters,
  // once for all groups. Undefined: the own step is counted elsewhere.
  Array cotangent = {};
};

// What K steps give to the traces: StepData with a leading axis K.
struct WindowData {
  std::int64_t steps = 1;
  Arrays params;
  std::vector<Arrays> operands;  // per relation, those that parameters determine; x is undefined
  Arrays kept;                   // what the rule kept of each step, stacked
  std::vector<Arrays> df;
  Arrays jacobians;
  std::vector<Arrays> transitions;
  Array active;                     // [K], or [K, B] per sample: steps that count, bool; undefined: all
  Array age, calls;                 // i32: active steps, and calls, before this window
  Array modulator;                  // [K, …], for rules that take one; undefined: none
  bool modulator_by_group = false;  // it is [K, n]: that of every group [*varshape, S], one behind the other
  std::vector<OwnPart> own, composite_own;  // per relation and composite relation
};
// The learning signal, per group. Every list may be empty.
struct Signals {
  Arrays entry;        // to the state at the entry of the window
  Arrays each_step;    // to the state after each step, leading axis K
  Arrays before_step;  // to the state before each step, past the new ones: it meets the trace from before
};

// One array that a rule carries from step to step, in the layout that it computes with.
struct TraceSlot {
  std::string name;  // "relation0/group0/weight"
  Aval aval;
  PortRole role = PortRole::Trace;           // Trace: new at the start of a sequence. Key, RuleParam: kept
  std::optional<std::size_t> relation = {};  // of all_relations(): whose it is alone; none: of several
};

// A trace as documents show it.
struct EligibilityTrace {
  std::string name;               // "relation0/group0/weight"
  Array value;                    // ([B], slots…, S)
  std::vector<StatePath> params;  // whose trace it is
};

// Rules -----------------------------------------------------------------------------------------------------
// A rule on one graph: how its traces move, and how they become gradients. Immutable.
class BoundRule {
 public:
  virtual ~BoundRule() = default;
  virtual std::vector<TraceSlot> slots() const = 0;
  // Values of the slots before the first step; by default zeros, and a key from the seed for slots of role
  // Key.
  virtual Arrays initial(std::uint64_t seed) const;
  virtual std::vector<EligibilityTrace> traces(ArraySpan params, ArraySpan memory) const = 0;

  // What has to be remembered of each step until the window is over.
  virtual Arrays keep(const StepData&) const = 0;
  struct Advanced {
    Arrays memory;     // the slots after the window
    Arrays gradients;  // per parameter leaf; undefined where there is none
  };
  virtual Advanced advance(const WindowData&, ArraySpan memory, const Signals&) const = 0;
  virtual OwnStep own_step() const = 0;
  // Gradient for a signal that comes from elsewhere, with the traces as they are.
  virtual Arrays contract(const WindowData&, ArraySpan memory, ArraySpan signal) const = 0;

  // What takes the place of ∂L/∂h, per group [K, *varshape, S], before it comes to advance(); empty: nothing.
  // By default it stays. A rule that puts something else in its place has OwnStep::Signal.
  enum class SignalTo : std::uint8_t {
    EachStep,    // the state after each step
    BeforeStep,  // the state before each step, for losses that read it
    Entry,       // the state at the entry of a window (K = 1)
  };
  virtual Arrays learning_signal(const WindowData&, ArraySpan memory, SignalTo, Arrays signal) const;
  // An estimate of what later windows will say to the states at the exit of this one, per group [*varshape,
  // S], for parameters that no trace carries; empty: none.
  virtual Arrays exit_estimate(const WindowData&, ArraySpan memory, ArraySpan hidden) const;
};

// A learning rule with its options. Immutable.
class LearningRule {
 public:
  virtual ~LearningRule() = default;
  virtual std::string name() const = 0;                    // "D_RTRL"
  virtual std::string describe() const { return name(); }  // with its options
  virtual std::string describe_on(const ETraceGraph&) const {
    return describe();
  }  // and what a graph decides
  virtual std::shared_ptr<const LearningRule> clone() const = 0;
  // What a learner of this method runs: the rule, without what this method never reads.
  virtual std::shared_ptr<const LearningRule> for_method(VjpMethod) const { return clone(); }
  virtual void configure(CompileOptions&) const {}                // the recurrence scope
  virtual const ETraceConfig* config() const { return nullptr; }  // its coordinates, if it has any
  virtual void require(VjpMethod) const {}  // NotSupportedError if it cannot run that way
  // Rules with a third factor, and the one that stands where a call gives none; undefined: every call must.
  virtual bool takes_modulator() const { return false; }
  virtual Array standing_modulator() const { return {}; }
  // What theory says of its gradient on a graph that would allow an exact one. `carried`: does credit pass
  // from step to step at all.
  struct Theory {
    enum Statement : std::uint8_t { Exact, Approximate, Unknown } statement = Unknown;
    std::string reason = {};
  };
  virtual Theory theory(bool carried) const;
  // NotSupportedError names rule, operator and reason if the rule cannot run on this graph. The graph must
  // outlive what comes back.
  virtual std::unique_ptr<const BoundRule> bind(const ETraceGraph&) const = 0;

 protected:
  LearningRule() = default;
  LearningRule(const LearningRule&) = default;
  LearningRule& operator=(const LearningRule&) = default;
};

// Rows ------------------------------------------------------------------------------------------------------
// Options by name, as a command line or a file gives them.
class RuleOptions {
 public:
  using Item = std::pair<std::string, Attr>;
  RuleOptions() = default;
  RuleOptions(std::initializer_list<Item> items) : items_(items) {}
  explicit RuleOptions(std::vector<Item> items) : items_(std::move(items)) {}

  void set(std::string name, Attr value);
  const std::vector<Item>& items() const { return items_; }
  const Attr* find(std::string_view name) const;  // null: not given, or null

  // Typed reading; TypeError names option and what it takes.
  std::optional<double> number(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::optional<Dtype> dtype(std::string_view name) const;

 private:
  std::vector<Item> items_;
};

struct RuleOption {
  enum class Type : std::uint8_t { Number, Integer, Text, Flag, Dtype };
  std::string name;  // "decay_or_rank"
  Type type = Type::Number;
  std::string fallback;  // the default, as text: "0.95"; empty: none
  std::string range;     // "[0, 1)"
  std::string help;      // one line
};

struct RuleRow {
  std::string name;                  // as documents write it: "D_RTRL"
  std::vector<std::string> aliases;  // further names: "ES_D_RTRL"
  std::string doc;                   // one line: what it is and what it costs
  // What theory() says of it with its default options, credit being carried, and in one line when its
  // gradient is that of BPTT.
  LearningRule::Theory::Statement expectation = LearningRule::Theory::Unknown;
  std::string gradient;
  std::vector<RuleOption> options;
  std::function<std::shared_ptr<const LearningRule>(const RuleOptions&)> make;
  // The options with which comparisons run it (`etrace rules MODEL`), one entry each; empty: not at all.
  std::vector<RuleOptions> compared = std::vector<RuleOptions>(1);
};

// A rule adds its row while the program starts: `const RegisterRule row({...});` at namespace scope.
struct RegisterRule {
  explicit RegisterRule(RuleRow);
};
std::vector<const RuleRow*> rule_rows();          // names ascending
const RuleRow& find_rule(std::string_view name);  // any case, blanks, '_' and '-' alike; ValueError lists
const RuleRow* rule_row_of(const LearningRule& rule);  // by the rule's name; null: not in the table
std::shared_ptr<const LearningRule> make_rule(std::string_view name, const RuleOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
