// x[index] and x.at[index].set(v): both find their positions by get_item.
#include <unordered_set>

#include "convert.h"
#include "index.h"
#include "numbers.h"

namespace etrace::python {

namespace {

struct At {
  Array x;
};
struct AtIndex {
  Array x;
  nb::object index;
};

bool is_traced_mask(nb::handle index) {
  if (!is_array(index)) return false;
  const Array a = nb::cast<Array>(index);
  return a.is_tracer() && a.dtype() == Dtype::Bool;
}

// The flat position in x of everything that the index picks, in the shape of what it picks.
Array positions(const AtIndex& at) {
  const bool wide = at.x.size() > (std::int64_t{1} << 31) - 1;
  return get_item(reshape(arange(at.x.size(), wide ? Dtype::I64 : Dtype::I32), at.x.shape().to_dims()),
                  at.index);
}

// Wider integers are written only where their values are known to fit.
void require_range(const Array& x, const Array& v) {
  if (v.is_weak() || !is_integer(v.dtype()) || !is_integer(x.dtype()) ||
      promote(v.dtype(), x.dtype()) == x.dtype())
    return;
  const std::string what =
      "values of type " + to_string(v.aval()) + " for an array of type " + to_string(x.aval());
  if (v.is_tracer()) throw TypeError("at", what + "; convert them with .astype first");
  const Tensor t = v.tensor();
  const Tensor back = convert(convert(v, x.dtype()), v.dtype()).tensor();
  if (!(back == t)) throw ValueError("at", what + ": some do not fit");
}

Array fitting(const AtIndex& at, nb::handle value, const Shape& shape) {
  const Array v = to_array(value);
  require_fit(at.x, v);
  if (is_floating(v.dtype()) && !is_floating(at.x.dtype()))
    throw TypeError("at", "floats cannot be written into an array of type " + to_string(at.x.aval()) +
                              "; convert it first");
  require_range(at.x, v);
  const Array typed = v.is_weak() ? full({}, *v.splat(), at.x.dtype()) : convert(v, at.x.dtype());
  const auto joint = numpy_broadcast_shapes(shape, v.shape());
  if (!joint || *joint != shape)
    throw ValueError(
        "at", "values of shape " + to_string(v.shape()) + " for " + to_string(shape) + " picked positions");
  return broadcast_to(typed, shape);
}

using Scatter = Array (*)(const Array&, const Array&, const Array&, int);
Array scatter(const AtIndex& at, nb::handle value, Scatter f) {
  const LineScope line(Arrays{at.x, is_array(value) ? nb::cast<Array>(value) : at.x});
  const Array p = positions(at);
  const Array v = fitting(at, value, p.shape());
  return reshape(f(reshape(at.x, {-1}), reshape(p, {-1}), reshape(v, {-1}), 0), at.x.shape().to_dims());
}

Array set_at(const AtIndex& at, nb::handle value) {
  if (!is_traced_mask(at.index)) return scatter(at, value, scatter_set);
  const Array mask = nb::cast<Array>(at.index);
  return where(mask, fitting(at, value, mask.shape()), at.x);
}
Array add_at(const AtIndex& at, nb::handle value) {
  if (!is_traced_mask(at.index)) return scatter(at, value, scatter_add);
  const Array mask = nb::cast<Array>(at.index);
  return where(mask, at.x + fitting(at, value, mask.shape()), at.x);
}

// x[index] = f(x[index], v): only where no position comes twice, for which there is no such formula.
Array update_at(const AtIndex& at, nb::handle value, Array (*f)(const Array&, const Array&)) {
  const Array p = positions(at);
  if (p.is_tracer())
    throw NotSupportedError("at", "this update at traced positions; use .at[…].set(…) or .add(…)");
  std::unordered_set<std::int64_t> seen;
  const Tensor t = p.tensor();
  for (std::int64_t k = 0; k < t.size(); ++k)
    if (!seen.insert(to_int(t.at(k))).second)
      throw NotSupportedError(
          "at", "this update at a position that comes twice; use .at[…].add(…), or positions that differ");
  const Array old = get_item(at.x, at.index);
  return set_at(at, nb::cast(f(old, fitting(at, value, old.shape()))));
}

}  // namespace

void bind_index(nb::class_<Array>& c, nb::module_& m) {
  nb::class_<AtIndex>(m, "_AtIndex")
      .def(
          "get", [](const AtIndex& at) { return get_item(at.x, at.index); }, "x[index]")
      .def("set", &set_at, "value"_a, "A copy of the array with these values at the index.")
      .def("add", &add_at, "value"_a,
           "A copy with the values added; positions that come twice are added to twice.")
      .def(
          "subtract", [](const AtIndex& at, nb::handle v) { return add_at(at, nb::cast(neg(to_array(v)))); },
          "value"_a)
      .def(
          "multiply", [](const AtIndex& at, nb::handle v) { return update_at(at, v, mul); }, "value"_a)
      .def(
          "divide", [](const AtIndex& at, nb::handle v) { return update_at(at, v, true_divide); }, "value"_a)
      .def(
          "power", [](const AtIndex& at, nb::handle v) { return update_at(at, v, power); }, "value"_a)
      .def(
          "min", [](const AtIndex& at, nb::handle v) { return update_at(at, v, minimum); }, "value"_a)
      .def(
          "max", [](const AtIndex& at, nb::handle v) { return update_at(at, v, maximum); }, "value"_a);
  nb::class_<At>(m, "_At").def(
      "__getitem__",
      [](const At& at, nb::handle index) {
        return AtIndex{at.x, nb::borrow(index)};
      },
      nb::arg("index").none());
  c.def(
       "__getitem__",
       [](const Array& x, nb::handle index) {
         const LineScope line(Arrays{x, is_array(index) ? nb::cast<Array>(index) : x});
         return get_item(x, index);
       },
       nb::arg("index").none())
      .def(
          "__setitem__",
          [](const Array&, nb::handle, nb::handle) {
            throw TypeError("array", "arrays are immutable; write x = x.at[index].set(value)");
          },
          nb::arg("index").none(), nb::arg("value").none())
      .def("__iter__",
           [](const Array& x) -> nb::object {
             if (x.rank() == 0) throw TypeError("array", "a single number cannot be iterated over");
             nb::list rows;
             for (std::int64_t i = 0; i < x.dim(0); ++i)
               rows.append(squeeze(slice_axis(x, 0, i, i + 1), {0}));
             return nb::iter(rows);
           })
      .def_prop_ro(
          "at", [](const Array& x) { return At{x}; },
          "x.at[index].set(v), .add(v), … : copies with some entries changed.");
}

}  // namespace etrace::python
