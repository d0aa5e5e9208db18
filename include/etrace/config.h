// Learning rules as coordinates: six axes that can be chosen one by one. Every named rule of etrace/rules.h
// is a point of this space, and every other legal point is a rule as well:
//
//   compile(model, ConfiguredRule(ETraceConfig({.recurrence_scope = RecurrenceScope::Coupled,
//                                               .trace_filter = TraceFilter::Kappa, .kappa = 0.9})), …)
#pragma once

#include <array>

#include "etrace/learning_rule.h"

#pragma GCC visibility push(default)
namespace etrace {

// What is carried from step to step.
enum class TraceFactorization : std::uint8_t {
  PerParam,          // one trace per parameter element and output position
  IoFactorized,      // an input side and an output side
  RandomProjection,  // one random vector of states times one of parameters
};
// What a trace is multiplied by from one step to the next.
enum class TemporalRecursion : std::uint8_t {
  Jacobian,    // the hidden Jacobian D
  ScalarLeak,  // a constant, `decay`
  None,        // nothing: no memory
};
// What of the recurrence is in D.
enum class RecurrenceScope : std::uint8_t {
  Diagonal,  // without products that mix positions
  Coupled,   // with them, their own blocks
  SparseN,   // with all positions that are reached within `sparse_n` − 1 steps
};
// What the trace is contracted with.
enum class LearningSignal : std::uint8_t {
  Symmetric,       // ∂L/∂h
  RandomFeedback,  // ∂L/∂h through a fixed random matrix
  Modulatory,      // a third factor from outside
  Bootstrapped,    // ∂L/∂h, and an estimate of what later windows will say for what has no trace
};
enum class TraceFilter : std::uint8_t {
  None,
  Kappa,  // ē ← kappa·ē + e in place of e
};
enum class UpdateSchedule : std::uint8_t { PerStep, Window, SequenceEnd };

std::string_view name(TraceFactorization);  // "per_param"
std::string_view name(TemporalRecursion);
std::string_view name(RecurrenceScope);
std::string_view name(LearningSignal);
std::string_view name(TraceFilter);
std::string_view name(UpdateSchedule);

// One value, or under io_factorized one for the input side and one for the output side.
template <class T>
class PerSide {
 public:
  PerSide(T both) : x_(both), f_(both) {}  // NOLINT: implicit on purpose
  PerSide(T input, T output) : x_(input), f_(output), pair_(true) {}
  T x() const { return x_; }
  T f() const { return f_; }
  bool is_pair() const { return pair_; }
  friend bool operator==(const PerSide&, const PerSide&) = default;

 private:
  T x_, f_;
  bool pair_ = false;
};

// Coordinates as somebody writes them. A coefficient belongs to one value of an axis: decay to scalar_leak
// and to io_factorized, sparse_n to its scope, kappa to its filter.
struct ETraceAxes {
  TraceFactorization trace_factorization = TraceFactorization::PerParam;
  PerSide<TemporalRecursion> temporal_recursion = TemporalRecursion::Jacobian;
  RecurrenceScope recurrence_scope = RecurrenceScope::Diagonal;
  LearningSignal learning_signal = LearningSignal::Symmetric;
  TraceFilter trace_filter = TraceFilter::None;
  UpdateSchedule update_schedule = UpdateSchedule::PerStep;
  std::optional<PerSide<double>> decay = {};
  std::optional<std::int64_t> sparse_n = {};
  std::optional<double> kappa = {};
  std::optional<std::int64_t> window_size = {};
  friend bool operator==(const ETraceAxes&, const ETraceAxes&) = default;
};

// A legal coordinate in canonical form: two that mean the same rule are equal. Immutable.
class ETraceConfig {
 public:
  ETraceConfig() = default;  // that of D_RTRL
  // ValueError names the rule that is broken and what to do.
  ETraceConfig(const ETraceAxes&);  // NOLINT: implicit on purpose
  // By name, as command line and files give them: {{"trace_factorization", "io_factorized"}, {"decay", 0.9}};
  // a pair is a list. ValueError lists the known words, TypeError says what a coefficient takes.
  explicit ETraceConfig(const RuleOptions&);
  static ETraceConfig parse(std::string_view text);  // what describe() prints

  ETraceConfig replace(const RuleOptions&) const;  // some axes anew, checked again
  const ETraceAxes& axes() const { return axes_; }
  std::string describe() const;  // "ETraceConfig(recurrence_scope=coupled)": what is not the default
  RuleOptions options() const;   // the same by name
  friend bool operator==(const ETraceConfig&, const ETraceConfig&) = default;

 private:
  ETraceAxes axes_;
};

// Names of axes and coefficients with their words, for help texts and rows.
std::vector<RuleOption> config_options();

}  // namespace etrace
#pragma GCC visibility pop
