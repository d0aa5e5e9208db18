// Sums, means, extremes, running sums. What NumPy's arrays have as methods, ours have, too.
#include "operands.h"

namespace etrace::python {

namespace {

// Sums of truth values count them.
Array countable(const Array& x) { return x.dtype() == Dtype::Bool ? convert(x, Dtype::I32) : x; }
Array inexact(const Array& x) {
  if (is_floating(x.dtype())) return x;
  return convert(x, x.dtype() == Dtype::I64 ? Dtype::F64 : Dtype::F32);
}
using Reduce = Array (*)(const Array&, const Dims&, bool);
using QuantityReduce = Quantity (*)(const Quantity&, const Dims&, bool);
struct ReduceRow {
  const char* name;
  Reduce f;
  QuantityReduce q;
  const char* doc;
};
const ReduceRow kReduce[] = {
    {"sum", [](const Array& x, const Dims& a, bool k) { return sum(countable(x), a, k); }, sum,
     "Σ x over the axes (all if None). Truth values are counted."},
    {"mean", [](const Array& x, const Dims& a, bool k) { return mean(inexact(x), a, k); }, mean,
     "The mean over the axes (all if None). Integers become floats."},
    {"prod", [](const Array& x, const Dims& a, bool k) { return prod(countable(x), a, k); }, nullptr,
     "Π x over the axes (all if None)."},
    {"max", max, max, "The largest element along the axes (all if None)."},
    {"min", min, min, "The smallest element along the axes (all if None)."},
    {"all",
     [](const Array& x, const Dims& a, bool k) {
       return all(x.dtype() == Dtype::Bool ? x : not_equal_to(x, 0), a, k);
     },
     nullptr, "True where all elements along the axes are not 0."},
    {"any",
     [](const Array& x, const Dims& a, bool k) {
       return any(x.dtype() == Dtype::Bool ? x : not_equal_to(x, 0), a, k);
     },
     nullptr, "True where an element along the axes is not 0."},
    {"logsumexp", [](const Array& x, const Dims& a, bool k) { return logsumexp(inexact(x), a, k); }, nullptr,
     "log Σ e^x over the axes (all if None), without overflow."},
};

// An empty tuple of axes reduces nothing, as in NumPy; the library takes it as all of them. So a new axis is
// reduced.
bool no_axes(const Given<Dims>& axis) { return !axis.is_none() && axis.get().empty(); }

Result reduce(const ReduceRow& row, nb::handle x, const Given<Dims>& axis, bool keepdims) {
  if (no_axes(axis)) {
    const Result one = apply<const Dims&>("expand_dims", expand_dims, expand_dims, x, Dims{0});
    return apply<const Dims&, bool>(row.name, row.f, row.q, one.value, Dims{0}, false);
  }
  return apply<const Dims&, bool>(row.name, row.f, row.q, x, axis.get_or({}), keepdims);
}

Result variance_(nb::handle x, const Given<Dims>& axis, bool keepdims, double correction) {
  if (is_quantity(x)) {
    if (correction != 0.0 || no_axes(axis)) no_quantities("var with a correction or without axes");
    return variance(from_object<Quantity>(x), axis.get_or({}), keepdims);
  }
  const Array a = inexact(from_object<Array>(x));
  const LineScope line(a);
  if (no_axes(axis)) return zeros_like(a);
  const Array v = variance(a, axis.get_or({}), keepdims);
  if (correction == 0.0) return v;
  const double n = static_cast<double>(a.size()) / static_cast<double>(std::max<std::int64_t>(v.size(), 1));
  return v * (n / (n - correction));
}

Result deviation(nb::handle x, const Given<Dims>& axis, bool keepdims, double correction) {
  const Result v = variance_(x, axis, keepdims, correction);
  return apply<>("std", sqrt, sqrt, v.value);
}

// numpy.sum(a) calls a.sum(out=None): the methods take the option, and no array for it.
void require_no_out(const char* name, nb::handle out) {
  if (!out.is_none())
    throw TypeError(name, "arrays are immutable, so `out` and, of var and std, `dtype` can be None only");
}

using Cumulative = Array (*)(const Array&, int, bool);
struct CumulativeRow {
  const char* name;
  Cumulative f;
  const char* doc;
};
const CumulativeRow kCumulative[] = {
    {"cumsum", cumsum, "Running sums along the axis."},
    {"cumprod", cumprod, "Running products along the axis."},
    {"cummax", cummax, "Running maxima along the axis."},
    {"cummin", cummin, "Running minima along the axis."},
    {"cumlogsumexp", cumlogsumexp, "Running log Σ e^x along the axis."},
};

}  // namespace

void bind_reductions(nb::module_& m) {
  Both both{m};
  for (const ReduceRow& row : kReduce) {
    m.def(
        row.name,
        [row](ArrayLike x, Given<Dims> axis, bool keepdims) {
          return reduce(row, x.source(), axis, keepdims);
        },
        "x"_a, "axis"_a = nb::none(), "keepdims"_a = false, row.doc);
    both.c.def(
        row.name,
        [row](ArrayLike x, Given<Dims> axis, bool keepdims, Given<Dtype> dtype, nb::handle out) {
          require_no_out(row.name, out);
          const Result y = reduce(row, x.source(), axis, keepdims);
          return dtype.is_none() ? y : Result(convert(from_object<Array>(y.value), dtype));
        },
        "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "dtype"_a = nb::none(),
        "out"_a = nb::none(), row.doc);
  }
  m.def(
      "var",
      [](ArrayLike x, Given<Dims> axis, bool keepdims, double correction) {
        return variance_(x.source(), axis, keepdims, correction);
      },
      "x"_a, "axis"_a = nb::none(), "keepdims"_a = false, "correction"_a = 0.0,
      "Σ (x - mean)² / (n - correction) over the axes (all if None).");
  m.def(
      "std",
      [](ArrayLike x, Given<Dims> axis, bool keepdims, double correction) {
        return deviation(x.source(), axis, keepdims, correction);
      },
      "x"_a, "axis"_a = nb::none(), "keepdims"_a = false, "correction"_a = 0.0, "The square root of var.");
  both.c.def(
      "var",
      [](ArrayLike x, Given<Dims> axis, bool keepdims, double ddof, nb::handle dtype, nb::handle out) {
        require_no_out("var", out);
        require_no_out("var", dtype);
        return variance_(x.source(), axis, keepdims, ddof);
      },
      "axis"_a = nb::none(), "keepdims"_a = false, "ddof"_a = 0.0, nb::kw_only(), "dtype"_a = nb::none(),
      "out"_a = nb::none(), "Σ (x - mean)² / (n - ddof) over the axes (all if None).");
  both.c.def(
      "std",
      [](ArrayLike x, Given<Dims> axis, bool keepdims, double ddof, nb::handle dtype, nb::handle out) {
        require_no_out("std", out);
        require_no_out("std", dtype);
        return deviation(x.source(), axis, keepdims, ddof);
      },
      "axis"_a = nb::none(), "keepdims"_a = false, "ddof"_a = 0.0, nb::kw_only(), "dtype"_a = nb::none(),
      "out"_a = nb::none(), "The square root of var.");
  for (const CumulativeRow& row : kCumulative)
    both.def(
        row.name,
        [row](ArrayLike x, std::optional<int> axis, bool reverse) -> Result {
          if (is_quantity(x.source())) {
            if (std::string_view(row.name) != "cumsum") no_quantities(row.name);
            const Quantity q = from_object<Quantity>(x.source());
            return axis ? cumsum(q, *axis, reverse) : cumsum(reshape(q, {-1}), 0, reverse);
          }
          const Array a = countable(x.get());
          const LineScope line(a);
          return axis ? row.f(a, *axis, reverse) : row.f(reshape(a, {-1}), 0, reverse);
        },
        "axis"_a = nb::none(), "reverse"_a = false, row.doc);
  both.def(
      "softmax",
      [](ArrayLike x, int axis) { return on(x, [&](const Array& a) { return softmax(a, axis); }); },
      "axis"_a = -1, "e^x / Σ e^x along the axis.");
  both.def(
      "log_softmax",
      [](ArrayLike x, int axis) { return on(x, [&](const Array& a) { return log_softmax(a, axis); }); },
      "axis"_a = -1, "x - log Σ e^x along the axis.");
  m.def(
      "l2_norm", [](ArrayLike x) { return on(x, [&](const Array& a) { return l2_norm(a); }); }, "x"_a,
      "sqrt(Σ x²) of all elements.");
}

}  // namespace etrace::python
