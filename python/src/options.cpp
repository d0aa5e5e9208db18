// Options by keyword: words for enumerations, and an error that names what there is.
#include <array>

#include "base/nearest.h"
#include "convert.h"
#include "options.h"

namespace etrace::python {

std::size_t one_of(const char* what, const std::string& given, std::span<const std::string_view> words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == given) return i;
  std::string known;
  for (const std::string_view w : words) known += (known.empty() ? "'" : ", '") + std::string(w) + "'";
  throw ValueError("options", std::string(what) + " is '" + given + "'; it must be one of " + known);
}

namespace {
template <class E, std::size_t N>
E word(const char* what, nb::handle given, const std::array<std::string_view, N>& words) {
  if (!nb::isinstance<nb::str>(given))
    throw TypeError("options", std::string(what) + " is a word such as '" + std::string(words[0]) +
                                   "', not " + describe(given));
  return static_cast<E>(one_of(what, nb::cast<std::string>(given), words));
}
constexpr std::array<std::string_view, 2> kMethods{"single-step", "multi-step"},
    kCompat{"none", "braintrace"}, kNotFinite{"error", "skip"}, kReduction{"mean", "sum"};
constexpr std::array<std::string_view, 3> kUpdates{"step", "window", "sequence"};

template <class T>
T cast(const char* what, const char* expected, nb::handle h) {
  T out;
  if (h.is_none() || !nb::try_cast(h, out))
    throw TypeError("options", std::string(what) + " is " + expected + ", not " + describe(h));
  return out;
}

ControlFlowPolicy policy(nb::handle h) {
  ControlFlowPolicy out;
  if (!nb::isinstance<nb::dict>(h))
    throw TypeError("options", "control_flow is a dictionary of its options, not " + describe(h));
  const Fields fields{
      {"cond",
       [&](nb::handle v) {
         out.cond =
             word<ControlFlowPolicy::Cond>("cond", v, std::array<std::string_view, 2>{"convert", "opaque"});
       }},
      {"scan_unroll_limit", [&](nb::handle v) { out.scan_unroll_limit = integer("scan_unroll_limit", v); }},
      {"while_hidden",
       [&](nb::handle v) {
         out.while_hidden = word<ControlFlowPolicy::WhileHidden>(
             "while_hidden", v, std::array<std::string_view, 2>{"opaque_forward", "error"});
       }},
      {"etp_in_control_flow",
       [&](nb::handle v) {
         out.etp_in_control_flow = word<ControlFlowPolicy::EtpInside>(
             "etp_in_control_flow", v, std::array<std::string_view, 2>{"error", "exclude"});
       }},
      {"scan_descent",
       [&](nb::handle v) {
         out.scan_descent = word<ControlFlowPolicy::Descent>("scan_descent", v,
                                                             std::array<std::string_view, 2>{"auto", "off"});
       }},
      {"fixpoint_iteration_limit",
       [&](nb::handle v) { out.fixpoint_iteration_limit = integer("fixpoint_iteration_limit", v); }},
  };
  read_fields("control_flow", nb::borrow<nb::dict>(h), fields);
  return out;
}

// [{"trace": …, "form": …, "threads": …}, …]
std::vector<TracePassWish> trace_passes(nb::handle list) {
  std::vector<TracePassWish> out;
  for (nb::handle each : nb::iter(list)) {
    if (!nb::isinstance<nb::dict>(each))
      throw TypeError("options", "trace_passes is a list of dictionaries, and holds " + describe(each));
    TracePassWish wish;
    const Fields fields{
        {"trace", [&](nb::handle v) { wish.trace = text("trace", v); }},
        {"form",
         [&](nb::handle v) {
           wish.form = trace_form(text("form", v));
           if (!wish.form)
             throw ValueError("options", "there is no trace pass of form '" + text("form", v) + "'");
         }},
        {"threads", [&](nb::handle v) { wish.threads = static_cast<int>(integer("threads", v)); }}};
    read_fields("trace_passes", nb::borrow<nb::dict>(each), fields);
    out.push_back(wish);
  }
  return out;
}

}  // namespace

std::int64_t integer(const char* what, nb::handle h) {
  if (PyBool_Check(h.ptr()) || PyIndex_Check(h.ptr()) == 0)
    throw TypeError("options", std::string(what) + " is a whole number, not " + describe(h));
  const nb::object n = nb::steal(PyNumber_Index(h.ptr()));
  if (!n.is_valid()) throw nb::python_error();
  return nb::cast<std::int64_t>(n);
}
double number(const char* what, nb::handle h) { return cast<double>(what, "a number", h); }
bool flag(const char* what, nb::handle h) {
  const int v = PyObject_IsTrue(h.ptr());
  if (v < 0) throw nb::python_error();
  if (!PyBool_Check(h.ptr()) && PyIndex_Check(h.ptr()) == 0)
    throw TypeError("options", std::string(what) + " is true or false, not " + describe(h));
  return v != 0;
}
std::string text(const char* what, nb::handle h) { return cast<std::string>(what, "a text", h); }
std::vector<std::int64_t> integers(const char* what, nb::handle h) {
  std::vector<std::int64_t> out;
  for (nb::handle each : nb::iter(h)) out.push_back(integer(what, each));
  return out;
}

Reduction reduction(nb::handle h) { return word<Reduction>("reduction", h, kReduction); }
UpdateEvery update_every(nb::handle h) { return word<UpdateEvery>("update", h, kUpdates); }
VjpMethod vjp_method(nb::handle h) { return word<VjpMethod>("vjp_method", h, kMethods); }
Compat compat(nb::handle h) { return word<Compat>("compat", h, kCompat); }
ControlFlowPolicy control_flow(nb::handle h) { return policy(h); }

void read_fields(const char* what, const nb::dict& given, const Fields& fields) {
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == name; });
    if (field == fields.end()) {
      std::vector<std::string> known;
      for (const auto& f : fields) known.emplace_back(f.first);
      throw TypeError("options", no_such_name("option of " + std::string(what), name, known));
    }
    if (!value.is_none()) field->second(value);
  }
}

LearnerOptions learner_options(const nb::dict& given) {
  LearnerOptions o;
  const Fields fields{
      {"batch_size", [&](nb::handle v) { o.batch_size = integer("batch_size", v); }},
      {"seed", [&](nb::handle v) { o.seed = static_cast<std::uint64_t>(integer("seed", v)); }},
      {"vjp_method", [&](nb::handle v) { o.vjp_method = vjp_method(v); }},
      {"vmap", [&](nb::handle v) { o.vmap = flag("vmap", v); }},
      {"backend", [&](nb::handle v) { o.backend = text("backend", v); }},
      {"compat", [&](nb::handle v) { o.compat = compat(v); }},
      {"control_flow", [&](nb::handle v) { o.control_flow = policy(v); }},
      {"strict", [&](nb::handle v) { o.strict = flag("strict", v); }},
      {"execution_window", [&](nb::handle v) { o.execution_window = integer("execution_window", v); }},
      {"memory_limit", [&](nb::handle v) { o.memory_limit = integer("memory_limit", v); }},
      {"trace_passes", [&](nb::handle v) { o.trace_passes = trace_passes(v); }},
      {"not_finite", [&](nb::handle v) { o.not_finite = word<NotFinite>("not_finite", v, kNotFinite); }},
  };
  read_fields("compile", given, fields);
  return o;
}

}  // namespace etrace::python
