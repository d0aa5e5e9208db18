// From coordinates to a rule: which engine, what takes the place of its Jacobian, and what of its signal.
#include <fmt/format.h>

#include <limits>
#include <typeinfo>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/parameter_traces.h"
#include "etrace/random.h"
#include "etrace/rules.h"
#include "learn/rules/filtered_sides.h"
#include "learn/rules/random_projection.h"
#include "learn/rules/readout_filter.h"
#include "learn/rules/signal_rules.h"
#include "learn/traces/operator_rules.h"

namespace etrace {

namespace {

void require_settings(const std::string& rule, const ETraceAxes& a, const RuleSettings& s) {
  if (s.trace_dtype && !is_floating(*s.trace_dtype))
    throw TypeError(rule, fmt::format("trace_dtype {} cannot hold a trace; use float64, float32, bfloat16 or "
                                      "float16",
                                      name(*s.trace_dtype)));
  if (s.trace_dtype && a.trace_factorization != TraceFactorization::PerParam)
    throw ValueError(rule, fmt::format("trace_dtype needs trace_factorization per_param, not {}",
                                       name(a.trace_factorization)));
  if (a.learning_signal == LearningSignal::RandomFeedback && !s.random_feedback_key)
    throw ValueError(rule, "random feedback needs a random_feedback_key, from which its matrices are drawn");
  if (s.composite_max_bytes < 0)
    throw ValueError(
        rule, fmt::format("composite_max_bytes is {}; it must not be negative", s.composite_max_bytes));
  const double eps = s.projection.projection_eps;
  if (!(eps > 0.0) || static_cast<float>(eps) < std::numeric_limits<float>::min())
    throw ValueError(rule, fmt::format("projection_eps is {}; it must be positive, also in float32", eps));
}

}  // namespace

ConfiguredRule::ConfiguredRule(std::string name, const ETraceConfig& config, RuleSettings settings)
    : name_(std::move(name)), config_(config), settings_(std::move(settings)) {
  require_settings(name_, config_.axes(), settings_);
}

std::string ConfiguredRule::describe() const { return described(settings_.unfiltered, {}); }

std::string ConfiguredRule::describe_on(const ETraceGraph& g) const {
  const ReadoutFilter filter = filter_on(g);
  return config_.axes().kappa ? described(filter.unfiltered, {})
                              : described(settings_.unfiltered, filter.text);
}

std::shared_ptr<const LearningRule> ConfiguredRule::for_method(VjpMethod method) const {
  std::shared_ptr<const LearningRule> same = clone();
  // Whose clone is another class is more than its settings.
  const LearningRule& cloned = *same;
  if (method != VjpMethod::MultiStep || !settings_.kappa_of_readout ||
      typeid(cloned) != typeid(ConfiguredRule))
    return same;
  auto own = std::make_shared<ConfiguredRule>(*this);
  own->in_windows_ = true;
  return own;
}

ReadoutFilter ConfiguredRule::filter_on(const ETraceGraph& g) const {
  ReadoutFilter filter = readout_filter(g, config_.axes().kappa, settings_);
  if (in_windows_ && filter.kappa && !filter.at_entry)
    return {.text = "no filter: windows lead back through " + filter.readouts};
  return filter;
}

std::string ConfiguredRule::described(const std::vector<std::string>& unfiltered,
                                      const std::string& filter) const {
  const ETraceAxes& a = config_.axes();
  const bool anonymous = name_ == "ETraceConfig";
  std::vector<std::string> details;
  if (!anonymous) {
    if (a.trace_factorization == TraceFactorization::IoFactorized)
      details.push_back(a.decay->x() == a.decay->f()
                            ? fmt::format("decay {}", a.decay->f())
                            : fmt::format("decays {} and {}", a.decay->x(), a.decay->f()));
    if (a.sparse_n) details.push_back(fmt::format("n {}", *a.sparse_n));
    if (a.kappa) details.push_back(fmt::format("kappa {}", *a.kappa));
  }
  if (!filter.empty()) details.push_back(filter);
  if ((a.kappa || settings_.kappa_of_readout) && !unfiltered.empty())
    details.push_back(fmt::format("not for {}", fmt::join(unfiltered, ", ")));
  if (a.learning_signal == LearningSignal::RandomFeedback)
    details.push_back(fmt::format("random feedback from key {}", *settings_.random_feedback_key));
  if (a.learning_signal == LearningSignal::Bootstrapped && settings_.synthesizer != nullptr)
    details.push_back("synthesizer " + settings_.synthesizer->name());
  if (a.trace_factorization == TraceFactorization::RandomProjection)
    details.push_back(fmt::format("key {}", settings_.projection.projection_key));
  if (settings_.trace_dtype)
    details.push_back(fmt::format("traces in {}", etrace::name(*settings_.trace_dtype)));
  if (settings_.composite) details.emplace_back("composite");
  const std::string head = anonymous ? config_.describe() : name_;
  return details.empty() ? head : fmt::format("{} ({})", head, fmt::join(details, ", "));
}

void ConfiguredRule::configure(CompileOptions& o) const {
  const ETraceAxes& a = config_.axes();
  o.include_recurrent_mixing = a.recurrence_scope != RecurrenceScope::Diagonal;
  o.sparse_n = a.sparse_n;
  if (a.sparse_n) o.snap_max_jacobian_elements = settings_.snap_max_jacobian_elements;
  o.composite = settings_.composite;
}

bool ConfiguredRule::takes_modulator() const {
  return config_.axes().learning_signal == LearningSignal::Modulatory;
}

void ConfiguredRule::require(VjpMethod method) const {
  const LearningSignal signal = config_.axes().learning_signal;
  if (signal == LearningSignal::Modulatory && method == VjpMethod::MultiStep)
    throw NotSupportedError(name_,
                            "multi-step: what happens inside a window would learn from the loss and not from "
                            "the modulator. Use vjp_method single-step");
  if (signal == LearningSignal::Bootstrapped && method == VjpMethod::SingleStep)
    throw NotSupportedError(
        name_, "single-step: the estimate is for the exit of a window. Use vjp_method multi-step");
}

// What theory says ------------------------------------------------------------------------------------------
LearningRule::Theory ConfiguredRule::theory(bool carried) const {
  const ETraceAxes& a = config_.axes();
  const TemporalRecursion recursion = a.temporal_recursion.f();
  const auto approximate = [](const char* why) { return Theory{Theory::Approximate, why}; };
  if (a.learning_signal == LearningSignal::Modulatory)
    return {Theory::Unknown, "a modulator takes the place of the loss's gradient"};
  if (a.learning_signal == LearningSignal::RandomFeedback)
    return approximate("random weights take the place of the gradient's way back");
  if (a.trace_filter == TraceFilter::Kappa)
    return approximate("a low-pass filter of the trace takes its place");
  if (a.trace_factorization == TraceFactorization::RandomProjection)
    return approximate("an unbiased estimate of rank one: exact in the mean over its draws only");
  if (a.trace_factorization == TraceFactorization::IoFactorized) {
    if (!carried && a.decay->x() == 0.0 && a.decay->f() == 0.0) return {Theory::Exact};
    return approximate("the trace is one product of two low-pass filtered sides");
  }
  if (recursion == TemporalRecursion::ScalarLeak)
    return approximate("a constant leak takes the place of the Jacobian");
  if (recursion == TemporalRecursion::None && carried)
    return approximate("traces are not carried from step to step");
  return {Theory::Exact};
}

// Binding ---------------------------------------------------------------------------------------------------
namespace {

// decay·1 in place of every D [K, M, M, X].
Array leak_of(double decay, const Array& like) {
  return broadcast_in_dim(eye(like.shape()[1], like.dtype()) * decay, like.shape(), {1, 2});
}

void refuse_composites(const ETraceGraph& g, const std::string& rule, const char* why) {
  std::vector<std::string> weights;
  for (const HiddenParamOpRelation& r : g.composite_relations)
    for (const TrainableSource& t : r.trainables)
      for (std::string& name : g.module_info.leaf_names(t)) weights.push_back(std::move(name));
  if (weights.empty()) return;
  throw NotSupportedError(rule, fmt::format("{}: composite relations, which lead through other trainable "
                                            "operators. {}. Use D_RTRL or OSTLRecurrent, or leave composite "
                                            "off",
                                            fmt::join(weights, ", "), why));
}

}  // namespace

std::unique_ptr<const BoundRule> ConfiguredRule::engine(const ETraceGraph& g) const {
  const ETraceAxes& a = config_.axes();
  if (a.trace_factorization == TraceFactorization::IoFactorized)
    refuse_composites(g, name_,
                      "This rule keeps one value per output of an operator, and these outputs are "
                      "no position of a state");
  if (a.trace_factorization == TraceFactorization::RandomProjection)
    refuse_composites(g, name_,
                      "This rule projects what operators add to a state at their own outputs, and "
                      "these outputs are no position of a state");
  if (a.recurrence_scope == RecurrenceScope::SparseN)
    refuse_composites(g, name_,
                      "This rule follows the neighbours of an output's position, and these outputs "
                      "are no position of a state");
  const TemporalRecursion recursion = a.temporal_recursion.f();
  switch (a.trace_factorization) {
    case TraceFactorization::IoFactorized:
      return filtered_sides(g,
                            {name_, a.decay->x(), a.decay->f(), recursion == TemporalRecursion::ScalarLeak});
    case TraceFactorization::RandomProjection:
      return random_projection(g, name_, settings_.projection);
    default:
      break;
  }
  if (a.recurrence_scope != RecurrenceScope::Diagonal)
    refuse_inner_loops(g, name_, "there, Jacobians are without the recurrent products that this rule keeps");
  ParameterTraceOptions o{.rule = name_, .trace_dtype = settings_.trace_dtype};
  o.composite_max_bytes = settings_.composite_max_bytes;
  const ReadoutFilter filter = filter_on(g);
  o.kappa = filter.kappa;
  o.unfiltered = filter.unfiltered;
  o.kappa_at_entry = filter.at_entry;
  o.memoryless = recursion == TemporalRecursion::None;
  if (recursion == TemporalRecursion::ScalarLeak)
    o.jacobian = [decay = a.decay->x()](const Array& d) { return leak_of(decay, d); };
  return std::make_unique<ParameterTraces>(g, std::move(o));
}

std::unique_ptr<const BoundRule> ConfiguredRule::bind(const ETraceGraph& g) const {
  std::unique_ptr<const BoundRule> bound = engine(g);
  switch (config_.axes().learning_signal) {
    case LearningSignal::RandomFeedback:
      return with_signal(std::move(bound), random_feedback(g, *settings_.random_feedback_key));
    case LearningSignal::Modulatory:
      return with_signal(std::move(bound), modulatory(g));
    case LearningSignal::Bootstrapped:
      return with_signal(
          std::move(bound),
          bootstrapped(g, settings_.synthesizer != nullptr ? settings_.synthesizer
                                                           : std::make_shared<const AffineSynthesizer>()));
    default:
      return bound;
  }
}

// Parts for step functions ----------------------------------------------------------------------------------
KappaFilter::KappaFilter(Array initial, double kappa)
    : initial_(std::move(initial)), value_(initial_), kappa_(kappa) {
  if (!(kappa >= 0.0 && kappa < 1.0))
    throw ValueError("KappaFilter", fmt::format("kappa {}; it must lie in [0, 1)", kappa));
}

const Array& KappaFilter::update(const Array& x) {
  value_ = (1.0 - kappa_) * x + kappa_ * value_;
  return value_;
}

FixedRandomFeedback::FixedRandomFeedback(std::int64_t n_target, std::int64_t n_layer, std::uint64_t key,
                                         double init_scale, Dtype dtype)
    : matrix_(init_scale * random::normal(random::key(key), {n_target, n_layer}, dtype)) {}

FixedRandomFeedback::FixedRandomFeedback(Array matrix) : matrix_(std::move(matrix)) {
  if (matrix_.rank() != 2)
    throw ValueError("FixedRandomFeedback",
                     fmt::format("a matrix of shape {}; it needs two axes: targets and units",
                                 to_string(matrix_.shape())));
}

Array FixedRandomFeedback::project(const Array& y) const {
  if (y.rank() == 0 || y.shape().back() != matrix_.shape()[0])
    throw ValueError("FixedRandomFeedback",
                     fmt::format("a value of shape {} for {} targets: its last axis must have that size",
                                 to_string(y.shape()), matrix_.shape()[0]));
  return dot(y, matrix_);
}

Array FixedRandomFeedback::attach(const Array& y, const Array& layer) const {
  const Shape& m = matrix_.shape();
  if (y.rank() == 0 || layer.rank() != y.rank() || y.shape().back() != m[0] || layer.shape().back() != m[1])
    throw ValueError(
        "FixedRandomFeedback",
        fmt::format("values of shape {} attached to a layer of shape {}: they must have equal axes "
                    "but for the last, of {} targets and {} units",
                    to_string(y.shape()), to_string(layer.shape()), m[0], m[1]));
  const Array back = dot(layer, transpose(matrix_, {1, 0}));
  return y + (back - stop_gradient(back));  // zero, with a derivative
}

}  // namespace etrace
