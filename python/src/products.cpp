// Ordering, picking, products (et.dot, et.conv_general_dilated) and random numbers.
#include "operands.h"

namespace etrace::python {

namespace {

Result product(const char* name, nb::handle a, nb::handle b, Binary f, QuantityBinary q) {
  return apply_binary(name, f, q, a, b);
}

// Along one axis, or over all elements in row-major order.
Array arg_extreme(const Array& x, std::optional<int> axis, bool keepdims, Array (*f)(const Array&, int)) {
  const Array y = axis ? f(x, *axis) : f(reshape(x, {-1}), 0);
  if (!keepdims) return y;
  if (axis) return expand_dims(y, {*axis < 0 ? *axis + static_cast<int>(x.rank()) : *axis});
  return reshape(y, Dims(x.rank(), 1));
}

std::vector<std::pair<std::int64_t, std::int64_t>> pairs_of(nb::handle h) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  if (h.is_none()) return out;
  for (nb::handle one : nb::iter(h)) {
    const Dims d = from_object<Dims>(one);
    if (d.size() != 2) throw ValueError("conv", "padding is one (before, after) per spatial axis");
    out.emplace_back(d[0], d[1]);
  }
  return out;
}

void bind_picking(nb::module_& m, nb::class_<Array>& c) {
  auto both = [&](const char* name, auto f, const auto&... extra) {
    m.def(name, f, "x"_a, extra...);
    c.def(name, f, extra...);
  };
  both(
      "sort", [](ArrayLike x, int axis) { return on(x, [&](const Array& a) { return sort(a, axis); }); },
      "axis"_a = -1, "Sorted along the axis, the smallest first.");
  both(
      "argsort",
      [](ArrayLike x, int axis) { return on(x, [&](const Array& a) { return argsort(a, axis); }); },
      "axis"_a = -1, "The positions that sort x along the axis; equal elements keep their order.");
  both(
      "argmax",
      [](ArrayLike x, std::optional<int> axis, bool keepdims) {
        return on(x, [&](const Array& a) { return arg_extreme(a, axis, keepdims, argmax); });
      },
      "axis"_a = nb::none(), "keepdims"_a = false,
      "Position of the first largest element along the axis (of all elements if None).");
  both(
      "argmin",
      [](ArrayLike x, std::optional<int> axis, bool keepdims) {
        return on(x, [&](const Array& a) { return arg_extreme(a, axis, keepdims, argmin); });
      },
      "axis"_a = nb::none(), "keepdims"_a = false,
      "Position of the first smallest element along the axis (of all elements if None).");
  both(
      "take",
      [](ArrayLike x, ArrayLike indices, int axis) -> Result {
        const Array i = indices;
        if (is_quantity(x.source())) return take(from_object<Quantity>(x.source()), i, axis);
        const Array a = x;
        const LineScope line(Arrays{a, i});
        return take(a, i, axis);
      },
      "indices"_a, "axis"_a = 0,
      "x[indices] along the axis; positions outside are moved to the nearest one inside.");
  m.def(
      "take_along_axis",
      [](ArrayLike x, ArrayLike i, int axis) {
        const Array a = x, n = i;
        const LineScope line(Arrays{a, n});
        return take_along_axis(a, n, axis);
      },
      "x"_a, "indices"_a, "axis"_a, "Picks along an axis; indices have the shape of the result.");
  m.def(
      "scatter_add",
      [](ArrayLike x, ArrayLike i, ArrayLike u, int axis) {
        const Array a = x, n = i, v = u;
        const LineScope line(Arrays{a, n, v});
        return scatter_add(a, n, v, axis);
      },
      "x"_a, "indices"_a, "updates"_a, "axis"_a = 0, "x with updates added at the indices along the axis.");
  m.def(
      "scatter_set",
      [](ArrayLike x, ArrayLike i, ArrayLike u, int axis) {
        const Array a = x, n = i, v = u;
        const LineScope line(Arrays{a, n, v});
        return scatter_set(a, n, v, axis);
      },
      "x"_a, "indices"_a, "updates"_a, "axis"_a = 0,
      "x with updates in place of the entries at the indices along the axis.");
  m.def(
      "dynamic_slice",
      [](ArrayLike x, Given<Arrays> starts, Given<Dims> sizes) {
        const Array a = x;
        const Arrays s = starts;
        Arrays all = s;
        all.push_back(a);
        const LineScope line(all);
        return dynamic_slice(a, s, sizes);
      },
      "x"_a, "starts"_a, "sizes"_a,
      "A block of fixed sizes at traced positions; starts are moved so that it fits.");
  m.def(
      "dynamic_update_slice",
      [](ArrayLike x, ArrayLike update, Given<Arrays> starts) {
        const Array a = x, u = update;
        const Arrays s = starts;
        Arrays all = s;
        all.push_back(a);
        all.push_back(u);
        const LineScope line(all);
        return dynamic_update_slice(a, u, s);
      },
      "x"_a, "update"_a, "starts"_a, "x with a block replaced.");
  m.def(
      "dynamic_index",
      [](ArrayLike x, ArrayLike i, int axis) {
        const Array a = x, n = i;
        const LineScope line(Arrays{a, n});
        return dynamic_index(a, n, axis);
      },
      "x"_a, "index"_a, "axis"_a = 0, "One entry along an axis, at a traced position.");
}

void bind_products(nb::module_& m, nb::class_<Array>& c) {
  m.def(
      "matmul_plain",
      [](ArrayLike a, ArrayLike b) {
        return product("matmul_plain", a.source(), b.source(), matmul_plain, matmul_plain);
      },
      "a"_a, "b"_a,
      "NumPy's matmul, the operator @. Not trainable: weights of a model that learns online go through "
      "et.matmul.");
  m.def(
      "dot", [](ArrayLike a, ArrayLike b) { return product("dot", a.source(), b.source(), dot, dot); }, "a"_a,
      "b"_a, "Σ over the last axis of a and the first of b.");
  c.def(
      "dot", [](ArrayLike a, ArrayLike b) { return product("dot", a.source(), b.source(), dot, dot); },
      "other"_a, "Σ over the last axis of self and the first of other.");
  m.def(
      "outer",
      [](ArrayLike a, ArrayLike b) { return product("outer", a.source(), b.source(), outer, outer); }, "a"_a,
      "b"_a, "a[i]·b[j].");
  m.def(
      "einsum_plain",
      [](const std::string& equation, nb::args operands) {
        Arrays all;
        for (nb::handle h : operands) all.push_back(from_object<Array>(h));
        const LineScope line(all);
        return einsum_plain(equation, all);
      },
      "equation"_a, "operands"_a,
      "Sums of products by letters, as NumPy's einsum. Not trainable: see et.einsum.");
  m.def(
      "dot_general",
      [](ArrayLike a, ArrayLike b, Given<Dims> ac, Given<Dims> bc, Given<Dims> ab, Given<Dims> bb) {
        const Array x = a, y = b;
        const LineScope line(Arrays{x, y});
        return dot_general(x, y, {ac, bc, ab.get_or({}), bb.get_or({})});
      },
      "a"_a, "b"_a, "a_contract"_a, "b_contract"_a, "a_batch"_a = nb::none(), "b_batch"_a = nb::none(),
      "Σ over pairs of contracted axes; batch axes come first in the result, then the rest of a, then of b.");
  m.def(
      "conv_general_dilated",
      [](ArrayLike x, ArrayLike kernel, Given<Dims> strides, nb::object padding, Given<Dims> lhs,
         Given<Dims> rhs, std::int64_t groups, std::int64_t batch_groups) {
        const Array a = x, k = kernel;
        const LineScope line(Arrays{a, k});
        ConvOptions o;
        o.strides = strides.get_or({});
        o.padding = pairs_of(padding);
        o.lhs_dilation = lhs.get_or({});
        o.rhs_dilation = rhs.get_or({});
        o.feature_group_count = groups;
        o.batch_group_count = batch_groups;
        return conv_general_dilated(a, k, o);
      },
      "x"_a, "kernel"_a, "strides"_a = nb::none(), "padding"_a = nb::none(), "lhs_dilation"_a = nb::none(),
      "rhs_dilation"_a = nb::none(), "feature_group_count"_a = 1, "batch_group_count"_a = 1,
      "Cross-correlation of x [batch, channel, space…] with kernel [out, in, space…]. Not trainable: see "
      "et.conv.");
}

}  // namespace

void bind_products(nb::module_& m) {
  nb::class_<Array> c = nb::borrow<nb::class_<Array>>(m.attr("Array"));
  bind_picking(m, c);
  bind_products(m, c);
}

void bind_random(nb::module_& top) {
  nb::module_ m =
      top.def_submodule("random", "Random numbers by keys: the same key gives the same numbers, everywhere.");
  m.def(
      "key",
      [](nb::handle seed) {
        if (PyIndex_Check(seed.ptr()) == 0)
          throw TypeError("random", "a seed is an integer, not " + describe(seed));
        const nb::object number = nb::steal(PyNumber_Index(seed.ptr()));
        if (!number.is_valid()) throw nb::python_error();
        std::uint64_t value = 0;
        if (!nb::try_cast(number, value))
          throw ValueError("random", "a seed is an integer from 0 to 2**64 - 1, not " + text_of(seed));
        return random::key(value);
      },
      "seed"_a, "A key, uint32[2], for an integer from 0 to 2**64 - 1.");
  m.def(
      "split",
      [](ArrayLike key, std::int64_t n) {
        return on(key, [&](const Array& k) { return random::split(k, n); });
      },
      "key"_a, "num"_a = 2, "num new keys, uint32[num, 2]; do not use the old one again.");
  m.def(
      "fold_in",
      [](ArrayLike key, ArrayLike data) {
        const Array k = key, d = data;
        const LineScope line(Arrays{k, d});
        return random::fold_in(k, d);
      },
      "key"_a, "data"_a, "A new key for a key and an integer.");
  m.def(
      "bits",
      [](ArrayLike key, Given<Shape> shape) {
        return on(key, [&](const Array& k) { return random::bits(k, shape); });
      },
      "key"_a, "shape"_a, "uint32 numbers, all bits random.");
  m.def(
      "uniform",
      [](ArrayLike key, Given<Shape> shape, Given<Dtype> d, double low, double high) {
        return on(key, [&](const Array& k) {
          return random::uniform(k, shape.get_or({}), d.get_or(Dtype::F32), low, high);
        });
      },
      "key"_a, "shape"_a = nb::none(), "dtype"_a = nb::none(), "low"_a = 0.0, "high"_a = 1.0,
      "Uniform in [low, high).");
  m.def(
      "normal",
      [](ArrayLike key, Given<Shape> shape, Given<Dtype> d) {
        return on(key,
                  [&](const Array& k) { return random::normal(k, shape.get_or({}), d.get_or(Dtype::F32)); });
      },
      "key"_a, "shape"_a = nb::none(), "dtype"_a = nb::none(), "Normal, mean 0 and variance 1.");
  m.def(
      "bernoulli",
      [](ArrayLike key, double p, Given<Shape> shape) {
        return on(key, [&](const Array& k) { return random::bernoulli(k, p, shape.get_or({})); });
      },
      "key"_a, "p"_a = 0.5, "shape"_a = nb::none(), "True with probability p.");
  m.def(
      "randint",
      [](ArrayLike key, Given<Shape> shape, std::int64_t low, std::int64_t high, Given<Dtype> d) {
        return on(key,
                  [&](const Array& k) { return random::randint(k, shape, low, high, d.get_or(Dtype::I32)); });
      },
      "key"_a, "shape"_a, "low"_a, "high"_a, "dtype"_a = nb::none(), "Integers in [low, high).");
  m.def(
      "permutation",
      [](ArrayLike key, std::int64_t n) {
        return on(key, [&](const Array& k) { return random::permutation(k, n); });
      },
      "key"_a, "n"_a, "The numbers 0 … n-1 in random order.");
}

}  // namespace etrace::python
