// Data movement: reshape, transpose, concatenate …
#include "operands.h"

namespace etrace::python {

namespace {

Result unchanged(nb::handle x) {
  return is_quantity(x) ? Result(from_object<Quantity>(x)) : Result(from_object<Array>(x));
}

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

}  // namespace

void bind_shapes(nb::module_& m) {
  Both both{m};
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
  m.def(
      "transpose", [](ArrayLike x, Given<Dims> axes) { return transpose_(x.source(), axes); }, "x"_a,
      "axes"_a = nb::none(), "Axes in another order; reversed if None.");
  both.c.def(
      "transpose",
      [](const Array& x, nb::args axes) {
        if (nb::len(axes) == 0) return transpose_(nb::cast(x), {});
        const nb::object order = nb::len(axes) == 1 ? nb::object(axes[0]) : nb::object(axes);
        return transpose_(nb::cast(x), Given<Dims>(order));
      },
      "Axes in another order, one tuple or several numbers; reversed if there are none.");
  both.def(
      "swapaxes",
      [](ArrayLike x, int a, int b) { return on(x, [&](const Array& v) { return swap_axes(v, a, b); }); },
      "axis1"_a, "axis2"_a, "Two axes exchanged.");
  m.def(
      "moveaxis",
      [](ArrayLike x, int from, int to) {
        return on(x, [&](const Array& a) { return moveaxis(a, from, to); });
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
        return on(x, [&](const Array& a) { return split_(a, parts, axis); });
      },
      "x"_a, "parts"_a, "axis"_a = 0, "A list of equal parts, or of parts cut at the given positions.");
  m.def(
      "pad",
      [](ArrayLike x, nb::object width, ArrayLike value) {
        return on(x, [&](const Array& a) { return pad_(a, width, value); });
      },
      "x"_a, "width"_a, "value"_a = 0,
      "With `value` before and after each axis: one number, or (before, after) per axis.");
  both.def(
      "roll",
      [](ArrayLike x, std::int64_t shift, std::optional<int> axis) {
        return on(x, [&](const Array& a) {
          return axis ? roll(a, shift, *axis)
                      : reshape(roll(reshape(a, {-1}), shift, 0), a.shape().to_dims());
        });
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
        return on(x, [&](const Array& a) { return tile(a, repeats); });
      },
      "repeats"_a, "Copies side by side, so many along each axis.");
  both.def(
      "repeat",
      [](ArrayLike x, std::int64_t n, std::optional<int> axis) {
        return on(
            x, [&](const Array& a) { return axis ? repeat(a, n, *axis) : repeat(reshape(a, {-1}), n, 0); });
      },
      "repeats"_a, "axis"_a = nb::none(), "Every entry so many times in a row.");
  m.def(
      "slice_axis",
      [](ArrayLike x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
        return on(x, [&](const Array& a) { return slice_axis(a, axis, start, stop, step); });
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

}  // namespace etrace::python
