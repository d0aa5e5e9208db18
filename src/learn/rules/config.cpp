// Coordinates of rules: words, canonical form, and what is legal. Order: words, then canonical(), then
// validate(), whose checks come in a fixed order.
#include "etrace/config.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "etrace/error.h"

namespace etrace {

// Words -----------------------------------------------------------------------------------------------------
namespace {

// The words of an axis, in the order of its enumeration.
template <class T>
struct AxisWords;
template <>
struct AxisWords<TraceFactorization> {
  static constexpr std::array<std::string_view, 3> words{"per_param", "io_factorized", "random_projection"};
};
template <>
struct AxisWords<TemporalRecursion> {
  static constexpr std::array<std::string_view, 3> words{"jacobian", "scalar_leak", "none"};
};
template <>
struct AxisWords<RecurrenceScope> {
  static constexpr std::array<std::string_view, 3> words{"diagonal", "coupled", "sparse_n"};
};
template <>
struct AxisWords<LearningSignal> {
  static constexpr std::array<std::string_view, 4> words{"symmetric", "random_feedback", "modulatory",
                                                         "bootstrapped"};
};
template <>
struct AxisWords<TraceFilter> {
  static constexpr std::array<std::string_view, 2> words{"none", "kappa"};
};
template <>
struct AxisWords<UpdateSchedule> {
  static constexpr std::array<std::string_view, 3> words{"per_step", "window", "sequence_end"};
};

template <class T>
std::string_view word_of(T value) {
  return AxisWords<T>::words[static_cast<std::size_t>(value)];
}

template <class T>
T from_word(const char* axis, const Attr& a) {
  const auto* text = a.get_if<std::string>();
  if (text == nullptr)
    throw TypeError("config", fmt::format("{} is {}; it takes one of: {}", axis, to_string(a),
                                          fmt::join(AxisWords<T>::words, ", ")));
  for (std::size_t i = 0; i < AxisWords<T>::words.size(); ++i)
    if (AxisWords<T>::words[i] == *text) return static_cast<T>(i);
  throw ValueError("config", fmt::format("{} is \"{}\"; it must be one of: {}", axis, *text,
                                         fmt::join(AxisWords<T>::words, ", ")));
}

[[noreturn]] void illegal(const std::string& message) { throw ValueError("config", message); }

// A list of two, as a list or as the whole numbers that a list of them becomes.
std::optional<std::pair<Attr, Attr>> as_pair(const char* axis, const Attr& a) {
  std::vector<Attr> items;
  if (const Attr::List* list = a.list_items())
    items = *list;
  else if (const Dims* dims = a.ints())
    items.assign(dims->begin(), dims->end());
  else
    return std::nullopt;
  if (items.size() != 2)
    illegal(fmt::format("{} has {} values; it takes one, or a pair (input side, output side)", axis,
                        items.size()));
  return std::pair(items[0], items[1]);
}

double number_of(const char* what, const Attr& a) {
  if (const auto* d = a.get_if<double>()) return *d;
  if (const auto* i = a.get_if<std::int64_t>()) return static_cast<double>(*i);
  throw TypeError("config", fmt::format("{} is {}; it takes a number in [0, 1)", what, to_string(a)));
}

std::int64_t whole_of(const char* what, const Attr& a) {
  if (const auto* i = a.get_if<std::int64_t>()) return *i;
  throw TypeError("config", fmt::format("{} is {}; it takes a whole number", what, to_string(a)));
}

void set_axis(ETraceAxes& axes, const std::string& key, const Attr& a) {
  if (key == "trace_factorization") {
    axes.trace_factorization = from_word<TraceFactorization>("trace_factorization", a);
  } else if (key == "temporal_recursion") {
    const auto word = [](const Attr& v) { return from_word<TemporalRecursion>("temporal_recursion", v); };
    if (const auto pair = as_pair("temporal_recursion", a))
      axes.temporal_recursion = {word(pair->first), word(pair->second)};
    else
      axes.temporal_recursion = word(a);
  } else if (key == "recurrence_scope") {
    axes.recurrence_scope = from_word<RecurrenceScope>("recurrence_scope", a);
  } else if (key == "learning_signal") {
    axes.learning_signal = from_word<LearningSignal>("learning_signal", a);
  } else if (key == "trace_filter") {
    axes.trace_filter = from_word<TraceFilter>("trace_filter", a);
  } else if (key == "update_schedule") {
    axes.update_schedule = from_word<UpdateSchedule>("update_schedule", a);
  } else if (key == "decay") {
    if (const auto pair = as_pair("decay", a))
      axes.decay = PerSide<double>(number_of("decay", pair->first), number_of("decay", pair->second));
    else if (a.is_null())
      axes.decay.reset();
    else
      axes.decay = PerSide<double>(number_of("decay", a));
  } else if (key == "sparse_n") {
    axes.sparse_n = a.is_null() ? std::nullopt : std::optional(whole_of("sparse_n", a));
  } else if (key == "kappa") {
    axes.kappa = a.is_null() ? std::nullopt : std::optional(number_of("kappa", a));
  } else if (key == "window_size") {
    axes.window_size = a.is_null() ? std::nullopt : std::optional(whole_of("window_size", a));
  } else {
    std::string known;
    for (const RuleOption& o : config_options()) known += (known.empty() ? "" : ", ") + o.name;
    throw ValueError("config", fmt::format("there is no axis {}; there are: {}", key, known));
  }
}

ETraceAxes with_options(ETraceAxes axes, const RuleOptions& o) {
  for (const auto& [key, value] : o.items()) set_axis(axes, key, value);
  return axes;
}

// Canonical form --------------------------------------------------------------------------------------------
using R = TemporalRecursion;

void require_fraction(const char* what, double value) {
  if (!(value >= 0.0 && value < 1.0)) illegal(fmt::format("{} is {}; it must lie in [0, 1)", what, value));
}

// One trace: a leak of zero is no memory, and no memory has a leak of zero.
void canonical_single(ETraceAxes& a) {
  if (a.temporal_recursion.is_pair() || (a.decay && a.decay->is_pair()))
    illegal(fmt::format("{} is a pair; only trace_factorization io_factorized has two sides",
                        a.temporal_recursion.is_pair() ? "temporal_recursion" : "decay"));
  const R recursion = a.temporal_recursion.x();
  if (a.decay) require_fraction("decay", a.decay->x());
  if (recursion == R::None && a.decay && a.decay->x() != 0.0)
    illegal(fmt::format("temporal_recursion none has no decay, but it is {}", a.decay->x()));
  if (recursion == R::ScalarLeak && a.decay && a.decay->x() == 0.0) a.temporal_recursion = R::None;
  if (a.temporal_recursion.x() == R::None) a.decay = PerSide<double>(0.0);
}

// Two sides: the shorthand jacobian means a leak for the input, which has no Jacobian.
void canonical_sides(ETraceAxes& a) {
  const bool shorthand = !a.temporal_recursion.is_pair();
  R x = a.temporal_recursion.x(), f = a.temporal_recursion.f();
  if (shorthand && x == R::Jacobian) x = R::ScalarLeak;
  std::optional<double> dx, df;
  if (a.decay) {
    dx = a.decay->x();
    df = a.decay->f();
    require_fraction("decay", *dx);
    require_fraction("decay", *df);
  }
  const auto pin = [](R& recursion, std::optional<double>& decay) {
    if (decay && *decay == 0.0) recursion = R::None;
    if (recursion == R::None) decay = 0.0;
  };
  pin(x, dx);
  pin(f, df);
  a.temporal_recursion = {x, f};
  if (dx && df) a.decay = PerSide<double>(*dx, *df);
}

ETraceAxes canonical(ETraceAxes a) {
  if (a.trace_factorization == TraceFactorization::IoFactorized)
    canonical_sides(a);
  else
    canonical_single(a);
  if (a.recurrence_scope == RecurrenceScope::SparseN && a.sparse_n == 1) {
    a.recurrence_scope = RecurrenceScope::Coupled;
    a.sparse_n.reset();
  }
  if (a.kappa) require_fraction("kappa", *a.kappa);
  if (a.trace_filter == TraceFilter::Kappa && a.kappa == 0.0) {
    a.trace_filter = TraceFilter::None;
    a.kappa.reset();
  }
  return a;
}

// Legality --------------------------------------------------------------------------------------------------
void require_coefficient(const char* coefficient, bool given, const char* category, bool chosen) {
  if (given && !chosen) illegal(fmt::format("{} is given without {}", coefficient, category));
  if (!given && chosen) illegal(fmt::format("{} needs {}", category, coefficient));
}

void validate(const ETraceAxes& a) {
  const bool per_param = a.trace_factorization == TraceFactorization::PerParam,
             sides = a.trace_factorization == TraceFactorization::IoFactorized,
             projection = a.trace_factorization == TraceFactorization::RandomProjection;
  const R x = a.temporal_recursion.x(), f = a.temporal_recursion.f();
  const bool kappa = a.trace_filter == TraceFilter::Kappa,
             sparse = a.recurrence_scope == RecurrenceScope::SparseN;
  if (a.update_schedule != UpdateSchedule::PerStep)
    illegal(
        fmt::format("update_schedule {} is a known name without an implementation: traces move at every "
                    "step, and TrainOptions::update says when parameters do",
                    word_of(a.update_schedule)));
  if (kappa && !per_param)
    illegal(fmt::format("trace_filter kappa needs trace_factorization per_param, not {}",
                        word_of(a.trace_factorization)));
  if (a.recurrence_scope != RecurrenceScope::Diagonal && f != R::Jacobian)
    illegal(fmt::format("recurrence_scope {} is about the Jacobian, but temporal_recursion {} has none",
                        word_of(a.recurrence_scope), word_of(f)));
  if (sides && x == R::Jacobian)
    illegal(
        "the input side has no Jacobian: give temporal_recursion (scalar_leak, jacobian), or jacobian for "
        "short");
  if (!sides && f == R::Jacobian && a.decay)
    illegal(fmt::format("decay {} has no meaning with temporal_recursion jacobian", a.decay->x()));
  if (!sides && f == R::ScalarLeak && !a.decay) illegal("temporal_recursion scalar_leak needs a decay");
  if (sides && !a.decay) illegal("io_factorized needs a decay for both sides: one number, or a pair");
  require_coefficient("kappa", a.kappa.has_value(), "trace_filter kappa", kappa);
  require_coefficient("sparse_n", a.sparse_n.has_value(), "recurrence_scope sparse_n", sparse);
  require_coefficient("window_size", a.window_size.has_value(), "update_schedule window", false);
  if (projection && a.recurrence_scope != RecurrenceScope::Coupled)
    illegal("random_projection carries the whole transition: give recurrence_scope coupled");
  if (sparse && !per_param)
    illegal(fmt::format("recurrence_scope sparse_n needs trace_factorization per_param, not {}",
                        word_of(a.trace_factorization)));
  if (sparse && *a.sparse_n < 2) illegal(fmt::format("sparse_n is {}; it must be at least 1", *a.sparse_n));
}

}  // namespace

std::string_view name(TraceFactorization v) { return word_of(v); }
std::string_view name(TemporalRecursion v) { return word_of(v); }
std::string_view name(RecurrenceScope v) { return word_of(v); }
std::string_view name(LearningSignal v) { return word_of(v); }
std::string_view name(TraceFilter v) { return word_of(v); }
std::string_view name(UpdateSchedule v) { return word_of(v); }

ETraceConfig::ETraceConfig(const ETraceAxes& axes) : axes_(canonical(axes)) { validate(axes_); }
ETraceConfig::ETraceConfig(const RuleOptions& o) : ETraceConfig(with_options({}, o)) {}
ETraceConfig ETraceConfig::replace(const RuleOptions& o) const { return with_options(axes_, o); }

// Text ------------------------------------------------------------------------------------------------------
RuleOptions ETraceConfig::options() const {
  RuleOptions out;
  const ETraceAxes standard;
  const auto word = [](auto v) { return Attr(std::string(word_of(v))); };
  const auto pair = [](Attr x, Attr f) { return Attr::list({std::move(x), std::move(f)}); };
  if (axes_.trace_factorization != standard.trace_factorization)
    out.set("trace_factorization", word(axes_.trace_factorization));
  if (axes_.temporal_recursion != standard.temporal_recursion)
    out.set("temporal_recursion",
            axes_.temporal_recursion.is_pair()
                ? pair(word(axes_.temporal_recursion.x()), word(axes_.temporal_recursion.f()))
                : word(axes_.temporal_recursion.x()));
  if (axes_.recurrence_scope != standard.recurrence_scope)
    out.set("recurrence_scope", word(axes_.recurrence_scope));
  if (axes_.learning_signal != standard.learning_signal)
    out.set("learning_signal", word(axes_.learning_signal));
  if (axes_.trace_filter != standard.trace_filter) out.set("trace_filter", word(axes_.trace_filter));
  if (axes_.decay)
    out.set("decay", axes_.decay->is_pair() ? pair(Attr(axes_.decay->x()), Attr(axes_.decay->f()))
                                            : Attr(axes_.decay->x()));
  if (axes_.sparse_n) out.set("sparse_n", Attr(*axes_.sparse_n));
  if (axes_.kappa) out.set("kappa", Attr(*axes_.kappa));
  return out;
}

namespace {

std::string option_text(const Attr& a) {
  if (const auto* text = a.get_if<std::string>()) return *text;
  if (const auto* d = a.get_if<double>()) return fmt::format("{}", *d);  // as many digits as it takes
  if (const auto* i = a.get_if<std::int64_t>()) return fmt::format("{}", *i);
  const Attr::List& items = *a.list_items();
  return fmt::format("({}, {})", option_text(items[0]), option_text(items[1]));
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

Attr option_from_text(std::string_view s) {
  const char* const end = s.data() + s.size();
  if (s.starts_with('(') && s.ends_with(')')) {
    const std::string_view inside = s.substr(1, s.size() - 2);
    const std::size_t comma = inside.find(',');
    if (comma == std::string_view::npos) illegal(fmt::format("\"{}\" is no pair", s));
    return Attr::list({option_from_text(trimmed(inside.substr(0, comma))),
                       option_from_text(trimmed(inside.substr(comma + 1)))});
  }
  std::int64_t whole = 0;
  if (const auto r = std::from_chars(s.data(), end, whole); r.ec == std::errc() && r.ptr == end)
    return Attr(whole);
  double real = 0.0;
  if (const auto r = std::from_chars(s.data(), end, real); r.ec == std::errc() && r.ptr == end)
    return Attr(real);
  return Attr(std::string(s));
}

}  // namespace

std::string ETraceConfig::describe() const {
  std::string inside;
  const RuleOptions named = options();
  for (const auto& [key, value] : named.items())
    inside += fmt::format("{}{}={}", inside.empty() ? "" : ", ", key, option_text(value));
  return fmt::format("ETraceConfig({})", inside);
}

ETraceConfig ETraceConfig::parse(std::string_view text) {
  std::string_view left = trimmed(text);
  constexpr std::string_view kOpen = "ETraceConfig(";
  if (!left.starts_with(kOpen) || !left.ends_with(')'))
    illegal(fmt::format("\"{}\" is not of the form ETraceConfig(axis=value, …)", text));
  left = left.substr(kOpen.size(), left.size() - kOpen.size() - 1);
  RuleOptions named;
  while (!trimmed(left).empty()) {
    const std::size_t equals = left.find('=');
    if (equals == std::string_view::npos) illegal(fmt::format("\"{}\" is not of the form axis=value", left));
    // A value ends at the comma behind it, or behind its pair.
    const std::string_view value = trimmed(left.substr(equals + 1));
    const std::size_t closing = value.starts_with('(') ? value.find(')') : 0;
    const std::size_t comma = closing == std::string_view::npos ? closing : value.find(',', closing);
    const std::string_view own = value.substr(0, comma);
    named.set(std::string(trimmed(left.substr(0, equals))), option_from_text(trimmed(own)));
    left = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
  }
  return ETraceConfig(named);
}

std::vector<RuleOption> config_options() {
  using Type = RuleOption::Type;
  const auto words = [](const auto& list) { return fmt::format("{}", fmt::join(list, ", ")); };
  return {
      {"trace_factorization", Type::Text, "per_param", words(AxisWords<TraceFactorization>::words),
       "what is carried from step to step"},
      {"temporal_recursion", Type::Text, "jacobian", words(AxisWords<TemporalRecursion>::words),
       "what a trace is multiplied by from one step to the next; under io_factorized also a pair"},
      {"recurrence_scope", Type::Text, "diagonal", words(AxisWords<RecurrenceScope>::words),
       "what of the recurrence is in the Jacobian"},
      {"learning_signal", Type::Text, "symmetric", words(AxisWords<LearningSignal>::words),
       "what traces are contracted with"},
      {"trace_filter", Type::Text, "none", words(AxisWords<TraceFilter>::words),
       "a low-pass filter behind the trace"},
      {"update_schedule", Type::Text, "per_step", words(AxisWords<UpdateSchedule>::words),
       "when traces move; only per_step is implemented"},
      {"decay", Type::Number, "", "[0, 1)", "of scalar_leak, and of both sides of io_factorized"},
      {"sparse_n", Type::Integer, "", "at least 1", "order of recurrence_scope sparse_n"},
      {"kappa", Type::Number, "", "[0, 1)", "of trace_filter kappa"},
      {"window_size", Type::Integer, "", "", "of update_schedule window"},
  };
}

}  // namespace etrace
