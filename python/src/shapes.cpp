// Creation, reductions, data movement, ordering and products. What NumPy's arrays have as methods, ours have,
// too.
#include "numbers.h"
#include "operands.h"

namespace etrace::python {

namespace {

// A function of the module that is a method of et.Array as well.
struct Both {
  nb::module_& m;
  nb::class_<Array> c;
  template <class F, class... Extra>
  void def(const char* name, F&& f, const Extra&... extra) {
    m.def(name, f, "x"_a, extra...);
    c.def(name, f, extra...);
  }
};

// --- reductions
// --------------------------------------------------------------------------------------------------

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

Result unchanged(nb::handle x) {
  return is_quantity(x) ? Result(from_object<Quantity>(x)) : Result(from_object<Array>(x));
}

// An empty tuple of axes reduces nothing, as in NumPy; the library takes it as all of them.
bool no_axes(const Given<Dims>& axis) { return !axis.is_none() && axis.get().empty(); }

Result reduce(const ReduceRow& row, nb::handle x, const Given<Dims>& axis, bool keepdims) {
  if (no_axes(axis)) return unchanged(x);
  return apply<const Dims&, bool>(row.name, row.f, row.q, x, axis.get_or({}), keepdims);
}

Result variance_(nb::handle x, const Given<Dims>& axis, bool keepdims, double correction) {
  if (is_quantity(x)) {
    if (correction != 0.0) no_quantities("var with a correction");
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

void bind_reductions(Both& both) {
  for (const ReduceRow& row : kReduce)
    both.def(
        row.name,
        [row](ArrayLike x, Given<Dims> axis, bool keepdims) {
          return reduce(row, x.source(), axis, keepdims);
        },
        "axis"_a = nb::none(), "keepdims"_a = false, row.doc);
  both.def(
      "var",
      [](ArrayLike x, Given<Dims> axis, bool keepdims, double correction) {
        return variance_(x.source(), axis, keepdims, correction);
      },
      "axis"_a = nb::none(), "keepdims"_a = false, "correction"_a = 0.0,
      "Σ (x - mean)² / (n - correction) over the axes (all if None).");
  both.def(
      "std",
      [](ArrayLike x, Given<Dims> axis, bool keepdims, double correction) -> Result {
        const Result v = variance_(x.source(), axis, keepdims, correction);
        return apply<>("std", sqrt, sqrt, v.value);
      },
      "axis"_a = nb::none(), "keepdims"_a = false, "correction"_a = 0.0, "The square root of var.");
  for (const CumulativeRow& row : kCumulative)
    both.def(
        row.name,
        [row](ArrayLike x, std::optional<int> axis, bool reverse) -> Result {
          if (is_quantity(x.source())) {
            if (std::string_view(row.name) != "cumsum") no_quantities(row.name);
            return cumsum(from_object<Quantity>(x.source()), axis.value_or(0), reverse);
          }
          const Array a = countable(x.get());
          const LineScope line(a);
          return axis ? row.f(a, *axis, reverse) : row.f(reshape(a, {-1}), 0, reverse);
        },
        "axis"_a = nb::none(), "reverse"_a = false, row.doc);
  both.def(
      "softmax",
      [](ArrayLike x, int axis) {
        const Array a = x;
        const LineScope line(a);
        return softmax(a, axis);
      },
      "axis"_a = -1, "e^x / Σ e^x along the axis.");
  both.def(
      "log_softmax",
      [](ArrayLike x, int axis) {
        const Array a = x;
        const LineScope line(a);
        return log_softmax(a, axis);
      },
      "axis"_a = -1, "x - log Σ e^x along the axis.");
  both.m.def(
      "l2_norm",
      [](ArrayLike x) {
        const Array a = x;
        const LineScope line(a);
        return l2_norm(a);
      },
      "x"_a, "sqrt(Σ x²) of all elements.");
}

// --- data movement
// ----------------------------------------------------------------------------------------------------

int axis_of(const Array& a, std::int64_t axis) {
  (void)a.dim(static_cast<int>(axis));  // ValueError if there is none
  return static_cast<int>(axis < 0 ? axis + static_cast<std::int64_t>(a.rank()) : axis);
}

// All axes of size 1 if none are named.
Dims unit_axes(const Shape& shape) {
  Dims axes;
  for (std::size_t i = 0; i < shape.rank(); ++i)
    if (shape[i] == 1) axes.push_back(static_cast<std::int64_t>(i));
  return axes;
}

Result squeeze_(nb::handle x, const Given<Dims>& axis) {
  const Shape shape = is_quantity(x) ? from_object<Quantity>(x).shape() : from_object<Array>(x).shape();
  const Dims axes = axis.is_none() ? unit_axes(shape) : axis.get();
  if (axes.empty()) return unchanged(x);
  return apply<const Dims&>("squeeze", squeeze, squeeze, x, axes);
}

Dims reversed(std::size_t rank) {
  Dims order;
  for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  return order;
}

Result transpose_(nb::handle x, const Given<Dims>& axes) {
  const Shape shape = is_quantity(x) ? from_object<Quantity>(x).shape() : from_object<Array>(x).shape();
  if (shape.rank() < 2 && axes.is_none()) return unchanged(x);
  Dims order = axes.get_or(reversed(shape.rank()));
  for (std::int64_t& a : order)
    if (a < 0) a += static_cast<std::int64_t>(shape.rank());
  return apply<const Dims&>("transpose", transpose, transpose, x, order);
}

Array swap_axes(const Array& x, int a, int b) {
  Dims order;
  for (std::size_t i = 0; i < x.rank(); ++i) order.push_back(static_cast<std::int64_t>(i));
  std::swap(order[static_cast<std::size_t>(axis_of(x, a))], order[static_cast<std::size_t>(axis_of(x, b))]);
  return transpose(x, order);
}

// The sizes of reshape: one tuple, or several numbers.
Dims sizes_of(nb::args args) {
  if (nb::len(args) == 1) return from_object<Dims>(args[0]);
  return from_object<Dims>(args);
}

Result joined(nb::handle parts, int axis, Array (*f)(ArraySpan, int), Quantity (*q)(QuantitySpan, int)) {
  bool quantities = false;
  if (!is_array(parts))
    for (nb::handle p : nb::iter(parts)) quantities |= is_quantity(p);
  if (quantities) {
    Quantities all;
    for (nb::handle p : nb::iter(parts)) all.push_back(from_object<Quantity>(p));
    return q(all, axis);
  }
  Arrays all = from_object<Arrays>(parts);
  if (all.empty()) throw ValueError("concatenate", "no arrays were given");
  Dtype dtype = all[0].dtype();
  bool strong = !all[0].is_weak();
  for (const Array& a : all) {
    if (a.is_weak() && strong) continue;
    dtype = strong && !a.is_weak() ? promote(dtype, a.dtype()) : a.dtype();
    strong |= !a.is_weak();
  }
  for (Array& a : all) a = a.is_weak() ? full({}, *a.splat(), dtype) : convert(a, dtype);
  const LineScope line(all);
  return f(all, axis);
}

nb::list split_(const Array& x, const nb::object& parts, int axis) {
  const std::int64_t n = x.dim(axis);
  Dims sizes;
  if (PyLong_Check(parts.ptr())) {
    const auto count = nb::cast<std::int64_t>(parts);
    if (count <= 0 || n % count != 0)
      throw ValueError("split", std::to_string(n) + " entries do not divide into " + std::to_string(count) +
                                    " equal parts");
    sizes.assign(static_cast<std::size_t>(count), n / count);
  } else {  // the positions at which it is cut, as in NumPy
    std::int64_t last = 0;
    Dims cuts = from_object<Dims>(parts);
    cuts.push_back(n);
    for (std::int64_t cut : cuts) {
      if (cut < 0) cut += n;
      cut = std::min(cut, n);
      if (cut < last) throw ValueError("split", "the positions must not fall");
      sizes.push_back(cut - last);
      last = cut;
    }
  }
  nb::list out;
  for (const Array& part : split(x, sizes, axis)) out.append(part);
  return out;
}

Array pad_(const Array& x, nb::handle width, const Array& value) {
  std::vector<PadAxis> axes(x.rank());
  if (PyLong_Check(width.ptr())) {
    for (PadAxis& a : axes) a.low = a.high = nb::cast<std::int64_t>(width);
  } else {
    if (static_cast<std::size_t>(nb::len(width)) != x.rank())
      throw ValueError("pad", "one (before, after) is needed per axis: " + std::to_string(x.rank()) +
                                  ", not " + std::to_string(nb::len(width)));
    std::size_t i = 0;
    for (nb::handle one : nb::iter(width)) {
      const Dims d = from_object<Dims>(one);
      if (d.size() != 2 && d.size() != 3)
        throw ValueError("pad", "an axis takes (before, after) or (before, after, between)");
      axes[i++] = {d[0], d[1], d.size() == 3 ? d[2] : 0};
    }
  }
  return pad(x, value.is_weak() ? full({}, *value.splat(), x.dtype()) : convert(value, x.dtype()), axes);
}

void bind_movement(Both& both) {
  nb::module_& m = both.m;
  m.def(
      "reshape",
      [](ArrayLike x, Given<Dims> shape) {
        return apply<const Dims&>("reshape", reshape, reshape, x.source(), shape.get());
      },
      "x"_a, "shape"_a, "The same elements in row-major order; one size may be -1.");
  both.c.def(
      "reshape",
      [](const Array& x, nb::args shape) {
        const LineScope line(x);
        return reshape(x, sizes_of(shape));
      },
      "The same elements in row-major order; one size may be -1.");
  for (const char* name : {"flatten", "ravel"})
    both.def(
        name,
        [](ArrayLike x) { return apply<const Dims&>("reshape", reshape, reshape, x.source(), Dims{-1}); },
        "All elements in one axis, row by row.");
  both.def(
      "squeeze", [](ArrayLike x, Given<Dims> axis) { return squeeze_(x.source(), axis); },
      "axis"_a = nb::none(), "Without the axes (all if None) of size 1.");
  both.def(
      "expand_dims",
      [](ArrayLike x, Given<Dims> axis) {
        return apply<const Dims&>("expand_dims", expand_dims, expand_dims, x.source(), axis.get());
      },
      "axis"_a, "With new axes of size 1 at these places of the result.");
  both.def(
      "transpose", [](ArrayLike x, Given<Dims> axes) { return transpose_(x.source(), axes); },
      "axes"_a = nb::none(), "Axes in another order; reversed if None.");
  both.def(
      "swapaxes",
      [](ArrayLike x, int a, int b) {
        const Array v = x;
        const LineScope line(v);
        return swap_axes(v, a, b);
      },
      "axis1"_a, "axis2"_a, "Two axes exchanged.");
  m.def(
      "moveaxis",
      [](ArrayLike x, int from, int to) {
        const Array a = x;
        const LineScope line(a);
        return moveaxis(a, from, to);
      },
      "x"_a, "source"_a, "destination"_a, "One axis at another place; the others keep their order.");
  m.def(
      "broadcast_to",
      [](ArrayLike x, Given<Shape> shape) {
        return apply<const Shape&>("broadcast_to", broadcast_to, broadcast_to, x.source(), shape.get());
      },
      "x"_a, "shape"_a, "Repeated along new axes and axes of size 1, by NumPy's rule.");
  m.def(
      "concatenate", [](nb::object parts, int axis) { return joined(parts, axis, concatenate, concatenate); },
      "arrays"_a, "axis"_a = 0, "Arrays one behind the other along an axis.");
  m.def(
      "stack", [](nb::object parts, int axis) { return joined(parts, axis, stack, stack); }, "arrays"_a,
      "axis"_a = 0, "Arrays of one shape along a new axis.");
  m.def(
      "split",
      [](ArrayLike x, nb::object parts, int axis) {
        const Array a = x;
        const LineScope line(a);
        return split_(a, parts, axis);
      },
      "x"_a, "parts"_a, "axis"_a = 0, "A list of equal parts, or of parts cut at the given positions.");
  m.def(
      "pad",
      [](ArrayLike x, nb::object width, ArrayLike value) {
        const Array a = x;
        const LineScope line(a);
        return pad_(a, width, value);
      },
      "x"_a, "width"_a, "value"_a = 0,
      "With `value` before and after each axis: one number, or (before, after) per axis.");
  both.def(
      "roll",
      [](ArrayLike x, std::int64_t shift, std::optional<int> axis) {
        const Array a = x;
        const LineScope line(a);
        return axis ? roll(a, shift, *axis) : reshape(roll(reshape(a, {-1}), shift, 0), a.shape().to_dims());
      },
      "shift"_a, "axis"_a = nb::none(),
      "Entries moved along an axis; those that leave at the end come in at the start.");
  both.def(
      "flip",
      [](ArrayLike x, Given<Dims> axis) {
        const Array a = x;
        const LineScope line(a);
        Dims axes = axis.get_or(reversed(a.rank()));
        for (std::int64_t& i : axes) i = axis_of(a, i);
        return axes.empty() ? a : rev(a, axes);
      },
      "axis"_a = nb::none(), "Entries in reverse order along the axes (all if None).");
  both.def(
      "tile",
      [](ArrayLike x, Given<Dims> repeats) {
        const Array a = x;
        const LineScope line(a);
        return tile(a, repeats);
      },
      "repeats"_a, "Copies side by side, so many along each axis.");
  both.def(
      "repeat",
      [](ArrayLike x, std::int64_t n, std::optional<int> axis) {
        const Array a = x;
        const LineScope line(a);
        return axis ? repeat(a, n, *axis) : repeat(reshape(a, {-1}), n, 0);
      },
      "repeats"_a, "axis"_a = nb::none(), "Every entry so many times in a row.");
  m.def(
      "slice_axis",
      [](ArrayLike x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
        const Array a = x;
        const LineScope line(a);
        return slice_axis(a, axis, start, stop, step);
      },
      "x"_a, "axis"_a, "start"_a, "stop"_a, "step"_a = 1, "x[start:stop:step] along one axis.");
  both.c.def_prop_ro(
      "T", [](const Array& x) { return transpose_(nb::cast(x), Given<Dims>(nb::none())); }, "Axes reversed.");
  both.c.def_prop_ro(
      "mT",
      [](const Array& x) {
        const LineScope line(x);
        return swap_axes(x, -1, -2);
      },
      "The last two axes exchanged.");
  both.c.def(
      "astype",
      [](const Array& x, Given<Dtype> dtype) {
        const LineScope line(x);
        return convert(x, dtype);
      },
      "dtype"_a, "Converted to another element type. Floats become integers by dropping the fraction.");
  m.def(
      "astype",
      [](ArrayLike x, Given<Dtype> dtype) {
        return apply<Dtype>("astype", convert, convert, x.source(), dtype.get());
      },
      "x"_a, "dtype"_a, "Converted to another element type.");
}

// --- creation
// -----------------------------------------------------------------------------------------------------------

Array arange_(const nb::object& start, const nb::object& stop, const nb::object& step,
              std::optional<Dtype> dtype) {
  const nb::object numpy = nb::module_::import_("numpy");
  const nb::object a = stop.is_none() ? numpy.attr("arange")(start) : numpy.attr("arange")(start, stop, step);
  const Array wide = to_array(a, {}, Copy::Always);
  if (dtype) return convert(wide, *dtype);
  return convert(wide, is_floating(wide.dtype()) ? Dtype::F32 : Dtype::I32);
}

Array full_(const Shape& shape, const Array& value, std::optional<Dtype> dtype) {
  const Dtype d = dtype.value_or(value.dtype());
  if (value.splat() && value.rank() == 0) return full(shape, *value.splat(), d);
  return broadcast_to(convert(value, d), shape);
}

void bind_creation(nb::module_& m) {
  m.def(
      "zeros", [](Given<Shape> shape, Given<Dtype> d) { return zeros(shape, d.get_or(Dtype::F32)); },
      "shape"_a, "dtype"_a = nb::none(), "All 0. float32 unless said otherwise.");
  m.def(
      "ones", [](Given<Shape> shape, Given<Dtype> d) { return ones(shape, d.get_or(Dtype::F32)); }, "shape"_a,
      "dtype"_a = nb::none(), "All 1. float32 unless said otherwise.");
  m.def(
      "empty", [](Given<Shape> shape, Given<Dtype> d) { return zeros(shape, d.get_or(Dtype::F32)); },
      "shape"_a, "dtype"_a = nb::none(), "The same as zeros.");
  m.def(
      "full",
      [](Given<Shape> shape, ArrayLike value, Given<Dtype> d) { return full_(shape, value, d.optional()); },
      "shape"_a, "value"_a, "dtype"_a = nb::none(), "All equal to value.");
  m.def(
      "zeros_like",
      [](ArrayLike x, Given<Dtype> d) {
        const Array a = x;
        return full(a.shape(), 0.0, d.get_or(a.dtype()));
      },
      "x"_a, "dtype"_a = nb::none(), "Zeros of x's shape and type.");
  m.def(
      "ones_like",
      [](ArrayLike x, Given<Dtype> d) {
        const Array a = x;
        return full(a.shape(), 1.0, d.get_or(a.dtype()));
      },
      "x"_a, "dtype"_a = nb::none(), "Ones of x's shape and type.");
  m.def(
      "empty_like",
      [](ArrayLike x, Given<Dtype> d) {
        const Array a = x;
        return full(a.shape(), 0.0, d.get_or(a.dtype()));
      },
      "x"_a, "dtype"_a = nb::none(), "The same as zeros_like.");
  m.def(
      "full_like",
      [](ArrayLike x, ArrayLike value, Given<Dtype> d) {
        const Array a = x;
        return full_(a.shape(), value, d.get_or(a.dtype()));
      },
      "x"_a, "value"_a, "dtype"_a = nb::none(), "x's shape and type, all equal to value.");
  m.def(
      "eye", [](std::int64_t n, Given<Dtype> d) { return eye(n, d.get_or(Dtype::F32)); }, "n"_a,
      "dtype"_a = nb::none(), "The n×n identity matrix.");
  m.def(
      "linspace",
      [](double start, double stop, std::int64_t n, Given<Dtype> d) {
        return linspace(start, stop, n, d.get_or(Dtype::F32));
      },
      "start"_a, "stop"_a, "n"_a = 50, "dtype"_a = nb::none(),
      "n numbers at equal distances, both ends included.");
  m.def(
      "arange",
      [](nb::object start, nb::object stop, nb::object step, Given<Dtype> d) {
        return arange_(start, stop, step, d.optional());
      },
      "start"_a, "stop"_a = nb::none(), "step"_a = 1, "dtype"_a = nb::none(),
      "start, start + step, … below stop; from 0 if one number is given.");
  m.def(
      "one_hot",
      [](ArrayLike i, std::int64_t n, Given<Dtype> d) {
        const Array a = i;
        const LineScope line(a);
        return one_hot(a, n, d.get_or(Dtype::F32));
      },
      "indices"_a, "num"_a, "dtype"_a = nb::none(), "[…] integers become […, num]: 1 at the index, else 0.");
  m.def(
      "tril",
      [](ArrayLike x) {
        const Array a = x;
        const LineScope line(a);
        return tril(a);
      },
      "x"_a, "The lower triangle of matrices, else 0.");
  m.def(
      "triu",
      [](ArrayLike x) {
        const Array a = x;
        const LineScope line(a);
        return triu(a);
      },
      "x"_a, "The upper triangle of matrices, else 0.");
  m.def(
      "diag",
      [](ArrayLike x) {
        const Array a = x;
        const LineScope line(a);
        return diag(a);
      },
      "x"_a, "A matrix with this diagonal, or the diagonal of a matrix.");
  m.def(
      "trace",
      [](ArrayLike x) {
        const Array a = x;
        const LineScope line(a);
        return trace(a);
      },
      "x"_a, "The sum of a matrix's diagonal.");
}

}  // namespace

void bind_shapes(nb::module_& m) {
  Both both{m, nb::borrow<nb::class_<Array>>(m.attr("Array"))};
  bind_reductions(both);
  bind_movement(both);
  bind_creation(m);
}

}  // namespace etrace::python
