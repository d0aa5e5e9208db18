// Elementwise functions: et.exp, et.maximum, et.where …
#include "numbers.h"
#include "operands.h"

namespace etrace::python {

void no_quantities(const char* function) {
  throw NotSupportedError(
      function,
      "quantities with a unit have no such function; take the number in a unit of your choice with "
      ".to(unit) first");
}

std::pair<Array, Array> operands(nb::handle a, nb::handle b) {
  const Array x = to_array(a, {}, Copy::Always), y = to_array(b, {}, Copy::Always);
  if (x.is_weak() && y.is_weak()) return {from_object<Array>(a), from_object<Array>(b)};
  require_fit(x, y);
  return {x, y};
}

Result apply_binary(const char* name, Binary f, QuantityBinary q, nb::handle a, nb::handle b) {
  if (any_quantity({a, b})) {
    if (q == nullptr) no_quantities(name);
    const Quantity x = from_object<Quantity>(a), y = from_object<Quantity>(b);
    const LineScope line(Arrays{x.mantissa(), y.mantissa()});
    return q(x, y);
  }
  const auto [x, y] = operands(a, b);
  const LineScope line(Arrays{x, y});
  return f(x, y);
}

namespace {

struct UnaryRow {
  const char* name;
  Unary f;
  QuantityUnary q;
  const char* doc;
};

Array negative(const Array& x) { return neg(x); }
Array is_nan(const Array& x) { return not_equal_to(x, x); }
Array is_inf(const Array& x) { return logical_and(logical_not(is_finite(x)), equal_to(x, x)); }
Array trunc(const Array& x) { return is_floating(x.dtype()) ? where(less(x, 0.0), ceil(x), floor(x)) : x; }
Array rounded(const Array& x) { return is_floating(x.dtype()) ? round(x) : x; }
Array floored(const Array& x) { return is_floating(x.dtype()) ? floor(x) : x; }
Array ceiled(const Array& x) { return is_floating(x.dtype()) ? ceil(x) : x; }
Array bitwise_not(const Array& x) { return logical_not(x); }
// Truth values of numbers: not 0.
Array truth(const Array& x) { return x.dtype() == Dtype::Bool ? x : not_equal_to(x, 0); }
Array logical_not_(const Array& x) { return logical_not(truth(x)); }
Array log2_(const Array& x) { return log(x) / std::log(2.0); }
Array log10_(const Array& x) { return log(x) / std::log(10.0); }

const UnaryRow kUnary[] = {
    {"negative", negative, neg, "-x, elementwise."},
    {"abs", abs, abs, "|x|, elementwise."},
    {"sign", sign, sign, "-1, 0 or 1, elementwise. Of a quantity: a plain number."},
    {"floor", floored, nullptr, "The largest integer not above x, as a float. Integers stay as they are."},
    {"ceil", ceiled, nullptr, "The smallest integer not below x, as a float."},
    {"round", rounded, nullptr, "The nearest integer as a float; halves go to the even one."},
    {"trunc", trunc, nullptr, "x without its fraction."},
    {"exp", exp, exp, "e^x, elementwise. A quantity must be a plain number."},
    {"exp2", exp2, exp2, "2^x, elementwise."},
    {"expm1", expm1, expm1, "e^x - 1, exact near 0."},
    {"log", log, log, "Natural logarithm, elementwise."},
    {"log1p", log1p, log1p, "log(1 + x), exact near 0."},
    {"log2", log2_, nullptr, "Logarithm to base 2."},
    {"log10", log10_, nullptr, "Logarithm to base 10."},
    {"sin", sin, sin, "Sine of x in radians."},
    {"cos", cos, cos, "Cosine of x in radians."},
    {"tan", tan, tan, "Tangent of x in radians."},
    {"asin", asin, asin, "Inverse sine, in [-π/2, π/2]."},
    {"acos", acos, acos, "Inverse cosine, in [0, π]."},
    {"atan", atan, atan, "Inverse tangent, in (-π/2, π/2)."},
    {"sinh", sinh, sinh, "Hyperbolic sine."},
    {"cosh", cosh, cosh, "Hyperbolic cosine."},
    {"tanh", tanh, tanh, "Hyperbolic tangent."},
    {"asinh", asinh, asinh, "Inverse hyperbolic sine."},
    {"acosh", acosh, acosh, "Inverse hyperbolic cosine."},
    {"atanh", atanh, atanh, "Inverse hyperbolic tangent."},
    {"logistic", logistic, logistic, "1 / (1 + e^-x). The same as sigmoid."},
    {"sigmoid", logistic, logistic, "1 / (1 + e^-x)."},
    {"erf", erf, erf, "Error function."},
    {"erfc", erfc, erfc, "1 - erf(x), exact for large x."},
    {"erf_inv", erf_inv, nullptr, "Inverse of erf."},
    {"lgamma", lgamma, nullptr, "log |Γ(x)|."},
    {"digamma", digamma, nullptr, "Derivative of lgamma."},
    {"sqrt", sqrt, sqrt, "Square root. The unit of a quantity: its root."},
    {"rsqrt", rsqrt, rsqrt, "1 / sqrt(x)."},
    {"cbrt", cbrt, cbrt, "Cube root."},
    {"square", square, square, "x·x, elementwise."},
    {"is_finite", is_finite, nullptr, "True where x is neither infinite nor NaN."},
    {"isfinite", is_finite, nullptr, "True where x is neither infinite nor NaN."},
    {"isnan", is_nan, nullptr, "True where x is NaN."},
    {"isinf", is_inf, nullptr, "True where x is infinite."},
    {"logical_not", logical_not_, nullptr, "True where x is 0 or False."},
    {"bitwise_not", bitwise_not, nullptr, "~x: every bit the other one; `not` of truth values."},
    {"stop_gradient", stop_gradient, stop_gradient, "x, whose derivative is taken to be 0."},
    {"relu", relu, relu, "max(x, 0)."},
    {"softplus", softplus, nullptr, "log(1 + e^x)."},
    {"silu", silu, nullptr, "x·sigmoid(x)."},
    {"gelu", gelu, nullptr, "x·Φ(x), with tanh's approximation as in JAX."},
    {"hard_sigmoid", hard_sigmoid, nullptr, "relu6(x + 3) / 6."},
};

struct BinaryRow {
  const char* name;
  Binary f;
  QuantityBinary q;
  const char* doc;
};

Array land(const Array& a, const Array& b) { return logical_and(truth(a), truth(b)); }
Array lor(const Array& a, const Array& b) { return logical_or(truth(a), truth(b)); }
Array lxor(const Array& a, const Array& b) { return logical_xor(truth(a), truth(b)); }

const BinaryRow kBinary[] = {
    {"add", add, add, "a + b."},
    {"sub", sub, sub, "a - b."},
    {"subtract", sub, sub, "a - b."},
    {"mul", mul, mul, "a·b, elementwise."},
    {"multiply", mul, mul, "a·b, elementwise."},
    {"div", true_divide, div, "a / b; integers become floats."},
    {"divide", true_divide, div, "a / b; integers become floats."},
    {"floor_divide", floor_divide, nullptr,
     "a // b: the quotient rounded down; for integers a // 0 is -1 (all bits set)."},
    {"mod", mod, nullptr, "a % b: has the sign of b."},
    {"remainder", mod, nullptr, "a % b: has the sign of b."},
    {"fmod", rem, rem, "The remainder with the sign of a, as in C."},
    {"rem", rem, rem, "The remainder with the sign of a, as in C."},
    {"pow", power, nullptr, "a ** b. A Python integer as exponent is exact, and integers stay integers."},
    {"power", power, nullptr, "a ** b."},
    {"atan2", atan2, nullptr, "The angle of the point (x, y) = (b, a), in [-π, π]."},
    {"nextafter", nextafter, nullptr, "The float that follows a on the way to b."},
    {"maximum", maximum, maximum, "The larger of a and b, elementwise; NaN wins."},
    {"minimum", minimum, minimum, "The smaller of a and b, elementwise; NaN wins."},
    {"logical_and", land, nullptr, "True where both are not 0."},
    {"logical_or", lor, nullptr, "True where one is not 0."},
    {"logical_xor", lxor, nullptr, "True where one of both is not 0."},
    {"bitwise_and", logical_and, nullptr, "a & b, bit by bit."},
    {"bitwise_or", logical_or, nullptr, "a | b, bit by bit."},
    {"bitwise_xor", logical_xor, nullptr, "a ^ b, bit by bit."},
    {"shift_left", shift_left, nullptr, "a << b."},
    {"shift_right", shift_right, nullptr, "a >> b; the sign stays, where the type has one."},
    {"shift_right_logical", shift_right_logical, nullptr, "a >> b; zeros come in."},
};

using QuantityCompare = Array (*)(const Quantity&, const Quantity&);
struct CompareRow {
  const char* name;
  Binary f;
  QuantityCompare q;
  const char* doc;
};
const CompareRow kCompare[] = {
    {"equal", equal_to, equal_to, "a == b, elementwise."},
    {"not_equal", not_equal_to, not_equal_to, "a != b, elementwise."},
    {"less", less, less, "a < b, elementwise."},
    {"less_equal", less_equal, less_equal, "a <= b, elementwise."},
    {"greater", greater, greater, "a > b, elementwise."},
    {"greater_equal", greater_equal, greater_equal, "a >= b, elementwise."},
};

Result clip_(nb::handle x, nb::handle low, nb::handle high) {
  if (any_quantity({x, low, high}))
    return clip(from_object<Quantity>(x), from_object<Quantity>(low), from_object<Quantity>(high));
  Array y = from_object<Array>(x);
  const LineScope line(y);
  if (!low.is_none() && !high.is_none()) {  // between two numbers it is one operation, as in C++
    const Array a = from_object<Array>(low), b = from_object<Array>(high);
    const bool whole = !is_floating(a.dtype()) && !is_floating(b.dtype());
    if (a.is_weak() && b.is_weak() && !y.is_weak() && (is_floating(y.dtype()) || whole))
      return clamp(a, y, b);
  }
  if (!low.is_none()) y = maximum(y, from_object<Array>(low));
  if (!high.is_none()) y = minimum(y, from_object<Array>(high));
  return y;
}

Result where_(ArrayLike condition, nb::handle a, nb::handle b) {
  const Array c = truth(condition.get());
  if (any_quantity({a, b})) {
    const Quantity x = from_object<Quantity>(a), y = from_object<Quantity>(b);
    const LineScope line(Arrays{c, x.mantissa(), y.mantissa()});
    return where(c, x, y);
  }
  const auto [x, y] = operands(a, b);
  const LineScope line(Arrays{c, x, y});
  return where(c, x, y);
}

Result heaviside_(nb::handle x, nb::handle dx) {
  if (any_quantity({x, dx})) return heaviside_surrogate(from_object<Quantity>(x), from_object<Quantity>(dx));
  const Array a = from_object<Array>(x), b = from_object<Array>(dx);
  const LineScope line(Arrays{a, b});
  return heaviside_surrogate(a, b);
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  for (const UnaryRow& row : kUnary)
    m.def(
        row.name, [row](ArrayLike x) { return apply<>(row.name, row.f, row.q, x.source()); }, "x"_a, row.doc);
  for (const BinaryRow& row : kBinary)
    m.def(
        row.name,
        [row](ArrayLike a, ArrayLike b) {
          return apply_binary(row.name, row.f, row.q, a.source(), b.source());
        },
        "a"_a, "b"_a, row.doc);
  for (const CompareRow& row : kCompare)
    m.def(
        row.name,
        [row](ArrayLike a, ArrayLike b) -> Result {
          if (any_quantity({a.source(), b.source()}))
            return row.q(from_object<Quantity>(a.source()), from_object<Quantity>(b.source()));
          return apply_binary(row.name, row.f, nullptr, a.source(), b.source());
        },
        "a"_a, "b"_a, row.doc);
  m.def(
      "clip",
      [](ArrayLike x, ArrayLike low, ArrayLike high) {
        return clip_(x.source(), low.source(), high.source());
      },
      "x"_a, "low"_a = nb::none(), "high"_a = nb::none(), "x, not below `low` and not above `high`.");
  m.def(
      "where",
      [](ArrayLike condition, ArrayLike a, ArrayLike b) { return where_(condition, a.source(), b.source()); },
      "condition"_a, "if_true"_a, "if_false"_a,
      "if_true where the condition holds, else if_false; all broadcast. Both are computed.");
  m.def(
      "select_n",
      [](ArrayLike which, Given<Arrays> cases) {
        const Array w = which.get();
        const Arrays c = cases.get();
        const LineScope line(w);
        return select_n(w, c);
      },
      "which"_a, "cases"_a, "Elementwise cases[which]; `which` is bool or int32, all cases have its shape.");
  m.def(
      "heaviside_surrogate", [](ArrayLike x, ArrayLike dx) { return heaviside_(x.source(), dx.source()); },
      "x"_a, "dx"_a, "1 where x ≥ 0, else 0; its derivative is taken to be dx: H(x)' := dx.");
  m.def(
      "leaky_relu",
      [](ArrayLike x, double slope) { return on(x, [&](const Array& a) { return leaky_relu(a, slope); }); },
      "x"_a, "slope"_a = 0.01, "x where x > 0, else slope·x.");
  m.def(
      "elu", [](ArrayLike x, double alpha) { return on(x, [&](const Array& a) { return elu(a, alpha); }); },
      "x"_a, "alpha"_a = 1.0, "x where x > 0, else alpha·(e^x - 1).");
  m.def(
      "integer_pow",
      [](ArrayLike x, std::int64_t n) { return on(x, [&](const Array& a) { return integer_pow(a, n); }); },
      "x"_a, "exponent"_a, "x to an integer power, by multiplications.");
  m.def(
      "bitcast",
      [](ArrayLike x, Given<Dtype> dtype) {
        return on(x, [&](const Array& a) { return bitcast(a, dtype); });
      },
      "x"_a, "dtype"_a, "The same bits as another element type of equal width.");
  m.def(
      "copy", [](ArrayLike x) { return on(x, [&](const Array& a) { return copy(a); }); }, "x"_a,
      "x in memory of its own.");
}

}  // namespace etrace::python
