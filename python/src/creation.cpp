// Arrays from nothing: zeros, arange, eye …
#include "operands.h"

namespace etrace::python {

namespace {

Array arange_(const nb::object& start, const nb::object& stop, const nb::object& step,
              std::optional<Dtype> dtype) {
  const nb::object numpy = nb::module_::import_("numpy");
  const nb::object a = stop.is_none() ? numpy.attr("arange")(start) : numpy.attr("arange")(start, stop, step);
  const Array wide = to_array(a, {}, Copy::Always);
  if (dtype) return convert(wide, *dtype);
  if (is_floating(wide.dtype())) return convert(wide, Dtype::F32);
  const Array narrow = convert(wide, Dtype::I32);
  return convert(narrow, wide.dtype()).tensor() == wide.tensor() ? narrow : wide;  // int64 where it must be
}

Array full_(const Shape& shape, const ArrayLike& x, std::optional<Dtype> dtype) {
  const Array value = to_owned(x.source(), dtype);
  const Dtype d = dtype.value_or(value.dtype());
  if (value.splat() && value.rank() == 0) return full(shape, *value.splat(), d);
  return broadcast_to(convert(value, d), shape);
}

}  // namespace

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
        return on(i, [&](const Array& a) {
          if (!is_integer(a.dtype()))
            throw TypeError("one_hot", "indices are integers, not " + to_string(a.aval()));
          return one_hot(a, n, d.get_or(Dtype::F32));
        });
      },
      "indices"_a, "num"_a, "dtype"_a = nb::none(), "[…] integers become […, num]: 1 at the index, else 0.");
  m.def(
      "tril", [](ArrayLike x) { return on(x, [&](const Array& a) { return tril(a); }); }, "x"_a,
      "The lower triangle of matrices, else 0.");
  m.def(
      "triu", [](ArrayLike x) { return on(x, [&](const Array& a) { return triu(a); }); }, "x"_a,
      "The upper triangle of matrices, else 0.");
  m.def(
      "diag", [](ArrayLike x) { return on(x, [&](const Array& a) { return diag(a); }); }, "x"_a,
      "A matrix with this diagonal, or the diagonal of a matrix.");
  m.def(
      "trace", [](ArrayLike x) { return on(x, [&](const Array& a) { return trace(a); }); }, "x"_a,
      "The sum of a matrix's diagonal.");
}

}  // namespace etrace::python
