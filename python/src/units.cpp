// Units and quantities: et.units.mV, 5 * et.units.mV, q.to(et.units.V).
#include <sstream>

#include "index.h"
#include "numbers.h"
#include "operands.h"

namespace etrace::python {

namespace {

// An exponent: an integer, a fraction, or a float that is a simple fraction.
Rational rational_of(nb::handle h) {
  if (PyLong_Check(h.ptr())) return {nb::cast<int>(h)};
  const nb::object fraction =
      nb::module_::import_("fractions").attr("Fraction")(h).attr("limit_denominator")(60);
  if (!fraction.equal(h))
    throw ValueError("units",
                     "a unit has simple fractions as exponents, not " + nb::cast<std::string>(nb::repr(h)));
  return {nb::cast<int>(fraction.attr("numerator")), nb::cast<int>(fraction.attr("denominator"))};
}

nb::tuple to_tuple(const Rational& r) { return nb::make_tuple(r.num(), r.den()); }
Rational from_tuple(nb::handle h) { return {nb::cast<int>(h[0]), nb::cast<int>(h[1])}; }

Unit make_unit(nb::handle exponents, nb::handle power_of_ten, double factor) {
  Unit u;
  std::size_t i = 0;
  for (nb::handle e : nb::iter(exponents)) {
    const Rational r = from_tuple(e);
    u = u * pow(Unit::of(static_cast<Dimension>(i++)), r);
  }
  const Rational p = from_tuple(power_of_ten);
  return u * pow(Unit().scaled(p.num(), 1.0), Rational(1, p.den())).scaled(0, factor);
}

// --- operators of Unit and Quantity ----------------------------------------------------------------------

nb::object not_implemented() { return nb::borrow(nb::handle(Py_NotImplemented)); }

// What may stand beside a quantity: arrays of any library, numbers, quantities, units.
std::optional<Quantity> operand(nb::handle h) {
  PyObject* p = h.ptr();
  if (is_quantity(h) || is_array(h) || PyFloat_Check(p) || PyLong_Check(p)) return from_object<Quantity>(h);
  if (PyUnicode_Check(p) || PyBytes_Check(p) || PyList_Check(p) || PyTuple_Check(p) || h.is_none())
    return std::nullopt;
  if (PyObject_CheckBuffer(p) || nb::hasattr(h, "__dlpack__")) return from_object<Quantity>(h);
  return std::nullopt;
}

struct BinaryRow {
  const char *name, *reflected;
  QuantityBinary f;
};
const BinaryRow kBinary[] = {{"__add__", "__radd__", add}, {"__sub__", "__rsub__", sub},
                             {"__mul__", "__rmul__", mul}, {"__truediv__", "__rtruediv__", div},
                             {"__mod__", nullptr, rem},    {"__matmul__", "__rmatmul__", matmul_plain}};
struct CompareRow {
  const char* name;
  Array (*f)(const Quantity&, const Quantity&);
};
const CompareRow kCompare[] = {{"__eq__", equal_to},   {"__ne__", not_equal_to}, {"__lt__", less},
                               {"__le__", less_equal}, {"__gt__", greater},      {"__ge__", greater_equal}};

QuantityResult binary(QuantityBinary f, const Quantity& a, nb::handle other, bool reflected) {
  const std::optional<Quantity> b = operand(other);
  if (!b) return not_implemented();
  const LineScope line(Arrays{a.mantissa(), b->mantissa()});
  return nb::cast(reflected ? f(*b, a) : f(a, *b));
}

// Units attach to what they are multiplied with; no operation on the numbers.
QuantityResult attach(const Unit& u, nb::handle other, bool divide, bool reflected) {
  if (nb::isinstance<Unit>(other)) {
    const Unit& o = nb::cast<const Unit&>(other);
    return nb::cast(divide ? (reflected ? o / u : u / o) : u * o);
  }
  const std::optional<Quantity> q = operand(other);
  if (!q) return not_implemented();
  if (!divide) return nb::cast(*q * u);
  if (reflected) return nb::cast(*q / u);
  return nb::cast(div(Quantity(Array(1.0), u), *q));
}

Quantity reduce(const Quantity& q, const Given<Dims>& axis, bool keepdims,
                Quantity (*f)(const Quantity&, const Dims&, bool)) {
  const LineScope line(q.mantissa());
  return f(q, axis.get_or({}), keepdims);
}

std::string repr(const Quantity& q) {
  const auto numbers = text_of(nb::cast(q.mantissa()));
  return q.unit() == Unit() ? numbers : numbers + " " + to_string(q.unit());
}

void bind_unit(nb::module_& m) {
  nb::class_<Unit> c(
      m, "Unit",
      "A physical unit: seven SI dimensions with rational exponents, and a scale.\n\n"
      "5 * et.units.mV is a Quantity; units multiply, divide and have powers: et.units.mV / et.units.ms.");
  c.def(nb::init<>())
      .def("__init__",
           [](Unit* self, nb::object e, nb::object p, double f) { new (self) Unit(make_unit(e, p, f)); })
      .def(
          "__mul__", [](const Unit& u, nb::handle o) { return attach(u, o, false, false); },
          nb::is_operator())
      .def(
          "__rmul__", [](const Unit& u, nb::handle o) { return attach(u, o, false, true); },
          nb::is_operator())
      .def(
          "__truediv__", [](const Unit& u, nb::handle o) { return attach(u, o, true, false); },
          nb::is_operator())
      .def(
          "__rtruediv__", [](const Unit& u, nb::handle o) { return attach(u, o, true, true); },
          nb::is_operator())
      .def(
          "__pow__", [](const Unit& u, nb::handle e) { return pow(u, rational_of(e)); }, nb::is_operator())
      .def(
          "__eq__",
          [](const Unit& u, nb::handle o) {
            return nb::isinstance<Unit>(o) && u == nb::cast<const Unit&>(o);
          },
          nb::arg("other").none())
      .def("__hash__", [](const Unit& u) { return nb::hash(nb::str(to_string(u).c_str())); })
      .def("__repr__", [](const Unit& u) { return to_string(u); })
      .def("same_dimension", &Unit::same_dimension, "other"_a, "True for units of one dimension: mV and V.")
      .def_prop_ro("dimensionless", &Unit::dimensionless, "True for plain numbers, whatever their scale.")
      .def("__reduce__", [](nb::handle self) {
        const Unit& u = nb::cast<const Unit&>(self);
        nb::list exponents;
        for (const Rational& r : u.exponents()) exponents.append(to_tuple(r));
        return nb::make_tuple(self.type(),
                              nb::make_tuple(nb::tuple(exponents), to_tuple(u.power_of_ten()), u.factor()));
      });
  c.attr("__array_ufunc__") = nb::none();  // NumPy leaves the operator to us
}

void bind_quantity(nb::module_& m) {
  nb::class_<Quantity> c(m, "Quantity",
                         "Numbers with a physical unit: mantissa · unit.\n\n"
                         "Sums, comparisons and choices need operands of one dimension (et.UnitError) and "
                         "take the scale of the\n"
                         "left one: 1 mV + 1 V is 1001 mV. Products compose units; a quantity without "
                         "dimension is a plain number.");
  c.def(
       "__init__",
       [](Quantity* self, ArrayLike x, Given<Unit> unit) {
         if (is_quantity(x.source())) {
           const Quantity q = from_object<Quantity>(x.source());
           new (self) Quantity(unit.is_none() ? q : q.in(unit.get()));
         } else {
           const Array a = to_array(x.source());
           new (self) Quantity(a.is_weak() ? a : Array(from_object<Array>(x.source())), unit.get_or({}));
         }
       },
       "mantissa"_a, "unit"_a = nb::none())
      .def_prop_ro(
          "mantissa", [](const Quantity& q) { return q.mantissa(); },
          "The numbers, in the quantity's own unit.")
      .def_prop_ro("unit", [](const Quantity& q) { return q.unit(); })
      .def_prop_ro("shape", [](const Quantity& q) { return q.shape(); })
      .def_prop_ro("dtype", [](const Quantity& q) { return q.dtype(); })
      .def_prop_ro("ndim", [](const Quantity& q) { return q.shape().rank(); })
      .def_prop_ro("size", [](const Quantity& q) { return q.shape().size(); })
      .def(
          "to",
          [](const Quantity& q, Given<Unit> unit) {
            const LineScope line(q.mantissa());
            return q.to(unit);
          },
          "unit"_a, "The numbers in that unit, an et.Array; UnitError if the dimension is another.")
      .def(
          "in_unit",
          [](const Quantity& q, Given<Unit> unit) {
            const LineScope line(q.mantissa());
            return q.in(unit);
          },
          "unit"_a, "The same quantity in another unit of its dimension.")
      .def(
          "decimal",
          [](const Quantity& q) {
            const LineScope line(q.mantissa());
            return q.decimal();
          },
          "The plain numbers; UnitError if there is a dimension.")
      .def(
          "__getitem__",
          [](const Quantity& q, nb::handle index) {
            const LineScope line(q.mantissa());
            return Quantity(get_item(q.mantissa(), index), q.unit());
          },
          nb::arg("index").none())
      .def("__len__", [](const Quantity& q) { return nb::len(nb::cast(q.mantissa())); })
      .def("__neg__", [](const Quantity& q) { return neg(q); })
      .def("__abs__", [](const Quantity& q) { return abs(q); })
      .def(
          "__pow__",
          [](const Quantity& q, nb::handle e) {
            const LineScope line(q.mantissa());
            return pow(q, rational_of(e));
          },
          nb::is_operator())
      .def("__float__", [](const Quantity& q) { return nb::float_(nb::cast(q.decimal())); })
      .def("__repr__", &repr)
      .def(
          "sum", [](const Quantity& q, Given<Dims> axis, bool keep) { return reduce(q, axis, keep, sum); },
          "axis"_a = nb::none(), "keepdims"_a = false)
      .def(
          "mean", [](const Quantity& q, Given<Dims> axis, bool keep) { return reduce(q, axis, keep, mean); },
          "axis"_a = nb::none(), "keepdims"_a = false)
      .def(
          "max", [](const Quantity& q, Given<Dims> axis, bool keep) { return reduce(q, axis, keep, max); },
          "axis"_a = nb::none(), "keepdims"_a = false)
      .def(
          "min", [](const Quantity& q, Given<Dims> axis, bool keep) { return reduce(q, axis, keep, min); },
          "axis"_a = nb::none(), "keepdims"_a = false)
      .def(
          "__array__",
          [](const Quantity& q, nb::handle, nb::handle) {
            throw TypeError("units", "a quantity in " + to_string(q.unit()) +
                                         " was used as a NumPy array; write q.to(unit)");
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("mantissa"), self.attr("unit")));
      });
  for (const BinaryRow& row : kBinary) {
    c.def(
        row.name, [f = row.f](const Quantity& a, nb::handle b) { return binary(f, a, b, false); },
        nb::is_operator());
    if (row.reflected != nullptr)
      c.def(
          row.reflected, [f = row.f](const Quantity& a, nb::handle b) { return binary(f, a, b, true); },
          nb::is_operator());
  }
  for (const CompareRow& row : kCompare)
    c.def(
        row.name,
        [f = row.f](const Quantity& a, nb::handle o) -> Result {
          const std::optional<Quantity> b = operand(o);
          if (!b) return not_implemented();
          const LineScope line(Arrays{a.mantissa(), b->mantissa()});
          return nb::cast(f(a, *b));
        },
        nb::is_operator(), nb::arg("other").none());
  c.attr("__hash__") = nb::none();
  c.attr("__array_ufunc__") = nb::none();
}

}  // namespace

template <>
Unit from_object<Unit>(nb::handle h) {
  if (nb::isinstance<Unit>(h)) return nb::cast<Unit>(h);
  throw TypeError("units", describe(h) + " is no unit; give one of et.units, like et.units.mV");
}

template <>
Quantity from_object<Quantity>(nb::handle h) {
  if (nb::isinstance<Quantity>(h)) return nb::cast<Quantity>(h);
  if (nb::isinstance<Unit>(h)) return {Array(1.0), nb::cast<Unit>(h)};
  return {from_object<Array>(h)};
}

void bind_units(nb::module_& m) {
  bind_unit(m);
  bind_quantity(m);
  nb::module_ u = m.def_submodule("units", "Units: et.units.mV, et.units.ms …");
  u.attr("Unit") = m.attr("Unit");
  u.attr("Quantity") = m.attr("Quantity");
#define ETRACE_UNIT(name) u.attr(#name) = nb::cast(units::name);
// clang-format off
#define ETRACE_UNITS(X)                                                                                     \
  X(one)                                                                                                    \
  X(m)                                                                                                      \
  X(kg)                                                                                                     \
  X(s)                                                                                                      \
  X(A)                                                                                                      \
  X(kelvin)                                                                                                 \
  X(mol)                                                                                                    \
  X(cd)                                                                                                     \
  X(Hz)                                                                                                     \
  X(N) X(Pa) X(J) X(W) X(C) X(V) X(S) X(ohm) X(F) X(M) X(km) X(cm) X(mm) X(um) X(nm) X(gram) X(mg) X(ug)    \
      X(ms) X(us) X(ns) X(minute) X(hour) X(kHz) X(MHz) X(mA) X(uA) X(nA) X(pA) X(fA) X(kV) X(mV) X(uV)     \
          X(mS) X(uS) X(nS) X(pS) X(kOhm) X(MOhm) X(GOhm) X(mF) X(uF) X(nF) X(pF) X(nC) X(pC) X(mmol) X(mM) \
              X(uM) X(nM)
  // clang-format on
  ETRACE_UNITS(ETRACE_UNIT)
#undef ETRACE_UNIT
}

}  // namespace etrace::python
