#include "fields.h"
#include "gil.h"

#include <array>
#include <cmath>

#include "base/nearest.h"
#include "calls.h"
#include "convert.h"
#include "nn_objects.h"

namespace etrace::python {

void Place::wrong_type(const char* expected, nb::handle given) const {
  throw TypeError(who, name + " is " + expected + ", not " + describe(given));
}
void Place::wrong_value(const std::string& why) const { throw ValueError(who, name + " " + why); }

// --- functions that are kept
// ---------------------------------------------------------------------------------

namespace {
void let_go(PyObject* p) {
  const TakenIfThere gil;
  if (gil) Py_XDECREF(p);
}
}  // namespace

KeptFunction::KeptFunction(nb::handle function, Hold hold) {
  PyObject* kept = nullptr;
  if (hold == Hold::Weak) {
    kept = PyWeakref_NewRef(function.ptr(), nullptr);
    if (kept == nullptr) PyErr_Clear();
    weak_ = kept != nullptr;
  }
  if (kept == nullptr) kept = Py_NewRef(function.ptr());
  object_ = std::shared_ptr<PyObject>(kept, let_go);
}

nb::object KeptFunction::get(const char* who) const {
  const nb::object f = weak_ ? nb::steal(PyObject_CallNoArgs(object_.get())) : nb::borrow(object_.get());
  if (!f.is_valid()) throw nb::python_error();
  if (f.is_none())
    throw ValueError(
        who, "the function that this layer was made with is gone together with the layer's Python object");
  return f;
}

namespace {

// A function of one array that keeps its shape; a single number stands for all.
std::function<Array(const Array&)> function_of(const Place& at, nb::handle h, bool number_for_all) {
  return [f = KeptFunction(h, KeptFunction::Hold::Weak), who = at.who + "." + at.name,
          number_for_all](const Array& x) {
    const Taken gil;
    const Array y = returned(f.get(who.c_str())(x), who.c_str());
    if (y.shape() != x.shape() && !(number_for_all && y.rank() == 0))
      throw ValueError(who, "the function made " + to_string(y.aval()) + " of " + to_string(x.aval()) +
                                "; expected the same shape");
    return y;
  };
}

// --- words
// ---------------------------------------------------------------------------------------------------

using Words = std::span<const std::string_view>;
constexpr std::array<std::string_view, 2> kReset{"soft", "hard"}, kMemory{"ring", "hidden"},
    kSynapse{"delta", "expon"};
constexpr std::array<std::string_view, 3> kMethod{"exp_euler", "euler", "rk4"}, kFan{"in", "out", "average"},
    kDistribution{"normal", "truncated_normal", "uniform"};
constexpr std::array<std::string_view, 4> kAveraged{"macro", "micro", "weighted", "per_class"};

template <class E>
E word(const Place& at, nb::handle h, Words words) {
  if (!nb::isinstance<nb::str>(h))
    at.wrong_type(("a word such as '" + std::string(words[0]) + "'").c_str(), h);
  const auto given = nb::cast<std::string>(h);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == given) return static_cast<E>(i);
  std::string known;
  for (const std::string_view w : words) known += (known.empty() ? "'" : ", '") + std::string(w) + "'";
  at.wrong_value("is '" + given + "'; it must be one of " + known);
}
template <class E>
std::string quoted(E value, Words words) {
  return "'" + std::string(words[static_cast<std::size_t>(value)]) + "'";
}

// A number of Python or NumPy; arrays have __index__, too.
bool is_whole(nb::handle h) {
  return !PyBool_Check(h.ptr()) && PyIndex_Check(h.ptr()) != 0 && !nb::hasattr(h, "__len__");
}
bool is_sequence(nb::handle h) { return nb::isinstance<nb::list>(h) || nb::isinstance<nb::tuple>(h); }

}  // namespace

// --- numbers
// -------------------------------------------------------------------------------------------------

std::int64_t Reader<std::int64_t>::read(const Place& at, nb::handle h) {
  if (!is_whole(h)) at.wrong_type("a whole number", h);
  const nb::object n = nb::steal(PyNumber_Index(h.ptr()));
  if (!n.is_valid()) throw nb::python_error();
  std::int64_t out = 0;
  if (!nb::try_cast(n, out)) at.wrong_value("is too large");
  return out;
}
int Reader<int>::read(const Place& at, nb::handle h) {
  const std::int64_t n = Reader<std::int64_t>::read(at, h);
  if (n != static_cast<int>(n)) at.wrong_value("is too large");
  return static_cast<int>(n);
}
std::uint64_t Reader<std::uint64_t>::read(const Place& at, nb::handle h) {
  if (!is_whole(h)) at.wrong_type("a whole number, at least 0", h);
  const nb::object n = nb::steal(PyNumber_Index(h.ptr()));
  if (!n.is_valid()) throw nb::python_error();
  std::uint64_t out = 0;
  if (!nb::try_cast(n, out)) at.wrong_value("must be at least 0 and fit into 64 bits");
  return out;
}
double Reader<double>::read(const Place& at, nb::handle h) {
  double out = 0.0;
  if (h.is_none() || PyBool_Check(h.ptr()) || nb::isinstance<nb::str>(h) || !nb::try_cast(h, out))
    at.wrong_type("a number", h);
  return out;
}
std::optional<double> Reader<std::optional<double>>::read(const Place& at, nb::handle h) {
  if (h.is_none()) return std::nullopt;
  return Reader<double>::read(at, h);
}
bool Reader<bool>::read(const Place& at, nb::handle h) {
  if (PyBool_Check(h.ptr())) return h.is(Py_True);
  const auto name = nb::cast<std::string>(h.type().attr("__name__"));
  if (name == "bool_" || name == "bool") return PyObject_IsTrue(h.ptr()) == 1;  // NumPy's
  at.wrong_type("True or False", h);
}
std::string Reader<std::string>::read(const Place& at, nb::handle h) {
  if (!nb::isinstance<nb::str>(h)) at.wrong_type("a text", h);
  return nb::cast<std::string>(h);
}
std::vector<std::string> Reader<std::vector<std::string>>::read(const Place& at, nb::handle h) {
  if (h.is_none()) return {};
  if (!is_sequence(h)) at.wrong_type("a list of texts", h);
  std::vector<std::string> out;
  for (nb::handle each : nb::iter(h)) out.push_back(Reader<std::string>::read(at, each));
  return out;
}

// --- values of ours
// ------------------------------------------------------------------------------------------

Dtype Reader<Dtype>::read(const Place&, nb::handle h) { return from_object<Dtype>(h); }
Unit Reader<Unit>::read(const Place& at, nb::handle h) {
  if (h.is_none()) return {};
  if (!nb::isinstance<Unit>(h)) at.wrong_type("a unit such as et.units.mS", h);
  return nb::cast<Unit>(h);
}
Array Reader<Array>::read(const Place& at, nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<nb::str>(h)) at.wrong_type("an array", h);
  return to_owned(h);
}
Dims Reader<Dims>::read(const Place& at, nb::handle h) {
  if (is_whole(h)) return {Reader<std::int64_t>::read(at, h)};
  if (!is_sequence(h)) at.wrong_type("a whole number or a tuple of them", h);
  Dims out;
  for (nb::handle each : nb::iter(h)) out.push_back(Reader<std::int64_t>::read(at, each));
  return out;
}
Shape Reader<Shape>::read(const Place& at, nb::handle h) {
  const Dims dims = Reader<Dims>::read(at, h);
  for (const std::int64_t d : dims)
    if (d < 0) at.wrong_value("has a negative size, " + std::to_string(d));
  return Shape(dims);
}
nn::Size Reader<nn::Size>::read(const Place& at, nb::handle h) { return Reader<Shape>::read(at, h); }

SparsePattern Reader<SparsePattern>::read(const Place&, nb::handle h) {
  if (nb::isinstance<SparsePattern>(h)) return nb::cast<SparsePattern>(h);
  return nb::cast<SparsePattern>(nb::type<SparsePattern>()(h));  // SciPy's; the class says what it takes
}

ConstantValue read_constant(const Place& at, nb::handle h) {
  const bool learned = nb::isinstance<nn::Learned>(h);
  Quantity q = learned ? nb::cast<nn::Learned>(h).start : Quantity();
  if (!learned) {
    if (h.is_none() || nb::isinstance<nb::str>(h) || PyBool_Check(h.ptr()))
      at.wrong_type("a number, an array, a quantity or et.nn.learned(…)", h);
    if (nb::isinstance<Unit>(h))
      throw TypeError(at.who, at.name + " is a unit without a number; write 5 * unit");
    if (nb::isinstance<Quantity>(h)) {
      q = nb::cast<Quantity>(h);
    } else if (PyLong_Check(h.ptr()) || PyFloat_Check(h.ptr())) {
      q = Quantity(Array(nb::cast<double>(h)));  // a bare number of double precision
    } else {
      q = Quantity(to_owned(h));
    }
  }
  return {q, learned};
}

// --- functions
// -----------------------------------------------------------------------------------------------

nn::Initializer Reader<nn::Initializer>::read(const Place& at, nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<InitializerObject>(h)) return nb::cast<const InitializerObject&>(h).function;
  if (nb::isinstance<nb::str>(h)) return nn::init::by_name(nb::cast<std::string>(h));
  if (PyFloat_Check(h.ptr()) || is_whole(h)) return nn::init::constant(nb::cast<double>(h));
  if (PyCallable_Check(h.ptr()) != 0) {
    return [f = KeptFunction(h, KeptFunction::Hold::Strong), who = at.who + "." + at.name](
               const Array& key, const Shape& shape, Dtype dtype) {
      const Taken gil;
      const Array made = returned(f.get(who.c_str())(key, nb::cast(shape), nb::cast(dtype)), who.c_str());
      if (made.shape() != shape)
        throw ValueError(who, "the function drew " + to_string(made.aval()) + "; expected the shape " +
                                  to_string(shape) + " that it was asked for");
      return made.dtype() == dtype ? made : convert(made, dtype);
    };
  }
  if (nb::isinstance<Quantity>(h))
    at.wrong_type("an initialiser without a unit; give the layer's unit= beside it", h);
  if (is_array(h) || PyObject_CheckBuffer(h.ptr()) != 0 || is_sequence(h))
    return nn::init::values(to_owned(h));
  at.wrong_type(
      "an initialiser of et.nn.init, its name, a number, an array, or a function (key, shape, dtype)", h);
}

nn::Activation Reader<nn::Activation>::read(const Place& at, nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<nb::str>(h)) return nn::activation(nb::cast<std::string>(h));
  if (PyCallable_Check(h.ptr()) == 0) at.wrong_type("a function of one array, or its name", h);
  return function_of(at, h, false);
}

nn::Surrogate Reader<nn::Surrogate>::read(const Place& at, nb::handle h) {
  if (nb::isinstance<SurrogateObject>(h)) return nb::cast<const SurrogateObject&>(h).function;
  if (nb::isinstance<nb::str>(h)) return nn::surrogate::by_name(nb::cast<std::string>(h));
  if (PyCallable_Check(h.ptr()) == 0)
    at.wrong_type("a surrogate of et.nn.surrogate, its name, or a function of one array", h);
  return function_of(at, h, true);
}

nn::Padding::Pairs Reader<nn::Padding::Pairs>::read(const Place& at, nb::handle h) {
  if (h.is_none()) return {};
  if (is_whole(h)) {
    const std::int64_t n = Reader<std::int64_t>::read(at, h);
    return {{n, n}};
  }
  if (!is_sequence(h)) at.wrong_type("a whole number, or one number or pair (before, after) per axis", h);
  nn::Padding::Pairs out;
  for (nb::handle each : nb::iter(h)) {
    const Dims pair = Reader<Dims>::read(at, each);
    if (pair.empty() || pair.size() > 2)
      at.wrong_value("has an entry that is neither a number nor (before, after)");
    out.emplace_back(pair.front(), pair.back());
  }
  return out;
}
nn::Padding Reader<nn::Padding>::read(const Place& at, nb::handle h) {
  if (nb::isinstance<nb::str>(h)) return nb::cast<std::string>(h);
  return Reader<nn::Padding::Pairs>::read(at, h);
}

#define ETRACE_WORDS(T, words) \
  T Reader<T>::read(const Place& at, nb::handle h) { return word<T>(at, h, words); }
ETRACE_WORDS(nn::Reset, kReset)
ETRACE_WORDS(nn::Method, kMethod)
ETRACE_WORDS(nn::DelayMemory, kMemory)
ETRACE_WORDS(nn::Synapse, kSynapse)
ETRACE_WORDS(nn::init::Fan, kFan)
ETRACE_WORDS(nn::init::Distribution, kDistribution)
ETRACE_WORDS(metrics::Averaged, kAveraged)
#undef ETRACE_WORDS

// --- texts
// ---------------------------------------------------------------------------------------------------

std::string initial_text(bool v) { return v ? "True" : "False"; }
std::string initial_text(int v) { return std::to_string(v); }
std::string initial_text(std::int64_t v) { return std::to_string(v); }
std::string initial_text(std::uint64_t v) { return std::to_string(v); }
std::string initial_text(double v) { return nb::cast<std::string>(nb::repr(nb::float_(v))); }
std::string initial_text(const std::optional<double>& v) { return v ? initial_text(*v) : "None"; }
std::string initial_text(Dtype d) { return "'" + std::string(name(d)) + "'"; }
std::string initial_text(const Dims& d) {
  if (d.size() == 1) return std::to_string(d[0]);
  std::string out = "(";
  for (const std::int64_t each : d) out += std::to_string(each) + ", ";
  return (d.empty() ? out : out.substr(0, out.size() - 2)) + ")";
}
std::string initial_text(const nn::Constant& c) {
  const std::optional<double> n = c.number();
  return n ? initial_text(*n) : "";
}
std::string initial_text(const nn::Padding& p) {
  return p.name().empty() ? std::string() : "'" + p.name() + "'";
}
std::string initial_text(nn::Reset v) { return quoted(v, kReset); }
std::string initial_text(nn::Method v) { return quoted(v, kMethod); }
std::string initial_text(nn::DelayMemory v) { return quoted(v, kMemory); }
std::string initial_text(nn::Synapse v) { return quoted(v, kSynapse); }

// --- fields
// --------------------------------------------------------------------------------------------------

void FieldTable::set(const std::string& name, nb::handle value) const {
  for (const Field& f : fields_)
    if (name == f.name) return f.set(value);
  std::vector<std::string> known;
  for (const Field& f : fields_) known.emplace_back(f.name);
  if (known.empty()) throw TypeError(who_, "there are no options, and '" + name + "' was given");
  throw TypeError(who_, no_such_name("option", name, known));
}

void FieldTable::set_all(const nb::dict& options) const {
  for (const auto& [key, value] : options) set(nb::cast<std::string>(key), value);
}

}  // namespace etrace::python
