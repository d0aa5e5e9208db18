// scatter and scatter_add: x with the windows that the indices name overwritten by, or increased by, the
// updates. Updates are applied in row-major order of the index vectors, so the last writer of a position
// wins.
#include <algorithm>
#include <cstring>

#include "etrace/axes.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"
#include "ops/index_common.h"

namespace etrace {

using namespace structure;

namespace {

Avals typing(std::string_view op, const Params& params, std::span<const Aval> in) {
  expect_operands(op, in, 3);
  mode_of(op, params);
  if (in[2].dtype != in[0].dtype)
    refuse_type(op, "the updates " + to_string(in[2]) + " must have the element type of the operand " +
                        to_string(in[0]) + "; convert one of them first");
  const WindowDims d = scatter_dims(params);
  const Shape expected = gathered_shape(op, d, in[0], in[1], update_window_sizes(op, d, in[0], in[2]));
  if (in[2].shape != expected)
    refuse(op, "the updates " + to_string(in[2]) + " must have the shape " + to_string(expected) +
                   " that the operand " + to_string(in[0]) + " and the indices " + to_string(in[1]) +
                   " imply");
  return {in[0]};
}

// write(window start in the result, window in the updates), after the operand has been copied.
template <class Write>
Kernel scatter_kernel(const KernelRequest& q, const Windows& windows, Write write) {
  Kernel kernel;
  kernel.in_place = {{0, 0}};
  kernel.run = [=, bytes = q.y().bytes()](const KernelArgs& k) {
    if (k.out[0] != k.in[0] && bytes > 0) std::memcpy(k.out[0], k.in[0], bytes);
    windows.for_each(k.in[1], [&](std::int64_t to, std::int64_t from, bool inside) {
      if (inside) write(k.out[0], to, k.in[2], from);
    });
  };
  return kernel;
}

AxisTable scatter_axes(const EmitRequest& q) {
  const WindowDims d = scatter_dims(q.params);
  const Dims sizes = update_window_sizes("scatter", d, q.x(0), q.x(2));
  AxisTable t(q);
  for (std::size_t a = 0; a < q.y().shape.rank(); ++a) {
    t.keep(a, 0, a);
    const WindowAxis w = window_axis(d, q.x(0).shape, q.x(2).shape, sizes, a);
    if (!w.windows) continue;
    t.keep(a, 2, *w.windows);
    t.at(a, 1) = w.indices ? AxisSource{AxisSource::Along, *w.indices} : AxisSource{AxisSource::Same};
  }
  return t;
}

Windows windows_of(const KernelRequest& q) {
  const WindowDims d = scatter_dims(q.params);
  return {d,
          q.x(0),
          q.x(1),
          q.x(2).shape,
          update_window_sizes("scatter", d, q.x(0), q.x(2)),
          mode_of("scatter", q.params)};
}

// The updates' positions read from an operand-shaped array; zero where an update is dropped.
Array read_back(const Params& params, const Array& from, const Array& indices, const Aval& updates) {
  const WindowDims d = scatter_dims(params);
  return bind1(gather_p, {from, indices},
               {{"dimension_numbers", gather_attr(d)},
                {"slice_sizes", update_window_sizes("scatter", d, from.aval(), updates)},
                {"mode", mode_of("scatter", params) == Mode::Clip ? "clip" : "fill_or_drop"},
                {"fill_value", 0.0}});
}

// Whether no entry of the operand has two updates: each index vector has an entry of the batching axes to
// itself.
bool never_overlap(const Params& params, const Array& indices) {
  const Dims batching = scatter_dims(params).indices_batching;
  for (std::size_t a = 0; a + 1 < indices.rank(); ++a)
    if (indices.shape()[a] > 1 && std::find(batching.begin(), batching.end(), to_dim(a)) == batching.end())
      return false;
  return true;
}

// Which operand entries no update reaches, and which updates are not overwritten by a later one. Found by
// scattering the number of each index vector.
struct Winners {
  Array untouched, last;
};
Winners winners(const Params& params, const Aval& x, const Array& indices, const Aval& updates) {
  const Dims vectors = other_axes(updates.shape.rank(), scatter_dims(params).window);
  const Shape vector_shape(pick(updates.shape.dims(), vectors));
  const Array numbers = arange(vector_shape.size(), Dtype::I64) + full({}, std::int64_t{1}, Dtype::I64);
  const Array ids = broadcast_in_dim(reshape(numbers, vector_shape.to_dims()), updates.shape, vectors);
  const Array written = bind1(scatter_p, {zeros_of({Dtype::I64, x.shape}), indices, ids}, params);
  return {equal_to(written, full({}, std::int64_t{0}, Dtype::I64)),
          equal_to(read_back(params, written, indices, {Dtype::I64, updates.shape}), ids)};
}

Array masked(const Array& mask, const Array& x) { return where(mask, x, zeros_of({x.dtype(), {}})); }

template <const Primitive& P>
Arrays batch_scatter(const Params& params, ArraySpan x, const std::vector<bool>& batched, std::int64_t n) {
  const WindowDims d = batched_dims(scatter_dims(params), true, batched[1]);
  return {bind1(P, {with_batch_axis(x[0], batched[0], n), x[1], with_batch_axis(x[2], batched[2], n)},
                params.with("dimension_numbers", scatter_attr(d)))};
}

Params scatter_params(const WindowDims& d, const char* mode) {
  return {{"dimension_numbers", scatter_attr(d)}, {"mode", mode}};
}

Samples scatter_samples(std::uint64_t seed) {
  Source r(seed);
  const std::int64_t n = r.integer(3, 6);
  const WindowDims corner{{1, 2}, {}, {0, 1}, {}, {}}, along{{}, {1}, {1}, {0}, {0}};
  return {{{r.floats({n, 4}), r.ints({5, 1}, 0, n - 1), r.floats({5, 4})},
           scatter_params(take_dims(2, 0, 1), "promise_in_bounds")},
          {{r.floats({3, n}), r.ints({2, 2, 1}, -2, 8), r.floats({3, 2, 2})},
           scatter_params(take_dims(2, 1, 2), "fill_or_drop")},
          {{r.floats({n}), r.ints({4, 1}, -2, 7, Dtype::I64), r.floats({4})},
           scatter_params(take_dims(1, 0, 1), "clip")},
          {{r.floats({n, 4}), r.ints({3, 2}, -1, 3), r.floats({3, 2, 3})}, scatter_params(corner, "clip")},
          {{r.floats({n, 4}), r.ints({n, 2, 1}, 0, 3), r.floats({n, 2})}, scatter_params(along, "clip")},
          {{r.floats({n, 2}), r.ints({0, 1}, 0, 1), r.floats({0, 2})},
           scatter_params(take_dims(2, 0, 1), "clip")},
          {{r.floats({n, 4}), r.ints({n, 1}, -1, 4), r.floats({n})}, scatter_params(along, "clip")},
          {{r.floats({n, 4}), r.ints({n, 1}, -1, 4), r.floats({n})}, scatter_params(along, "fill_or_drop")},
          {{r.floats({n}), r.ints({1}, 0, n - 1), r.floats({})}, scatter_params(take_dims(1, 0, 0), "clip")},
          {{r.floats({n}, Dtype::F32), r.ints({4, 1}, 0, n), r.floats({4}, Dtype::F32)},
           scatter_params(take_dims(1, 0, 1), "fill_or_drop")},
          {{r.ints({n}, -9, 9), r.ints({4, 1}, 0, n), r.ints({4}, -9, 9)},
           scatter_params(take_dims(1, 0, 1), "fill_or_drop"),
           false}};
}

}  // namespace

const Primitive scatter_p{{
    .name = "scatter",
    .doc = "y = x, then y[start(indices[b]) + w] = updates[b, w]; the last writer wins",
    .params = {"dimension_numbers", "mode"},
    .ignored_params = {"indices_are_sorted", "unique_indices", "update_jaxpr", "update_consts"},
    .abstract = [](const Params& params, std::span<const Aval> in) { return typing("scatter", params, in); },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Windows w = windows_of(q);
      const StridedCopy copy(w.extents, w.x_strides, w.result_strides, size_of(q.y().dtype), q.context);
      return scatter_kernel(q, w, [copy](void* y, std::int64_t to, const void* updates, std::int64_t from) {
        copy(updates, from, y, to);
      });
    },
    .axes = scatter_axes,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      if (never_overlap(params, x[1]))
        return {bind1(scatter_p, {instantiate(dx[0], x[0].aval()), x[1], instantiate(dx[2], x[2].aval())},
                      params)};
      // dx where nothing was written, plus the winning updates' tangents: sums, so the rule can be
      // transposed.
      const Winners w = winners(params, x[0].aval(), x[1], x[2].aval());
      const Array kept = dx[0].defined() ? masked(w.untouched, dx[0]) : zeros_of(x[0].aval());
      return {dx[2].defined() ? bind1(scatter_add_p, {kept, x[1], masked(w.last, dx[2])}, params) : kept};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      Arrays out(3);
      if (never_overlap(params, x[1])) {
        if (!x[0].defined()) out[0] = bind1(scatter_p, {ct[0], x[1], zeros_of(in[2])}, params);
        if (!x[2].defined()) out[2] = read_back(params, ct[0], x[1], in[2]);
        return out;
      }
      const Winners w = winners(params, in[0], x[1], in[2]);
      if (!x[0].defined()) out[0] = masked(w.untouched, ct[0]);
      if (!x[2].defined()) out[2] = masked(w.last, read_back(params, ct[0], x[1], in[2]));
      return out;
    },
    .batch = batch_scatter<scatter_p>,
    .samples = scatter_samples,
}};

const Primitive scatter_add_p{{
    .name = "scatter_add",
    .doc = "y = x, then y[start(indices[b]) + w] += updates[b, w]",
    .params = {"dimension_numbers", "mode"},
    .ignored_params = {"indices_are_sorted", "unique_indices", "update_jaxpr", "update_consts"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      if (!in.empty()) expect_number("scatter_add", in[0].dtype);
      return typing("scatter_add", params, in);
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Windows w = windows_of(q);
      Box<2> window(w.extents, {w.x_strides, w.result_strides});
      const Box<2>::Axis inner = window.pop_back();
      return visit_number(q.y().dtype, [&]<class Element>(std::type_identity<Element>) -> Kernel {
        using T = Wrapping<Element>;
        return scatter_kernel(q, w, [=](void* y, std::int64_t to, const void* updates, std::int64_t from) {
          window.for_each([&](const std::array<std::int64_t, 2>& at) {
            T* __restrict d = static_cast<T*>(y) + to + at[0];
            const T* __restrict s = static_cast<const T*>(updates) + from + at[1];
            if (inner.stride[0] == 1 && inner.stride[1] == 1)
              for (std::int64_t i = 0; i < inner.extent; ++i) d[i] += s[i];
            else
              for (std::int64_t i = 0; i < inner.extent; ++i)
                d[i * inner.stride[0]] += s[i * inner.stride[1]];
          });
        });
      });
    },
    .axes = scatter_axes,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      if (!dx[2].defined()) return {dx[0]};
      return {bind1(scatter_add_p, {instantiate(dx[0], x[0].aval()), x[1], dx[2]}, params)};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      Arrays out(3);
      if (!x[0].defined()) out[0] = ct[0];
      if (!x[2].defined()) out[2] = read_back(params, ct[0], x[1], in[2]);
      return out;
    },
    .batch = batch_scatter<scatter_add_p>,
    .samples = scatter_samples,
}};

namespace {
Array at_axis(const Primitive& prim, const Array& x, const Array& indices, const Array& updates, int axis) {
  const std::size_t d = to_index(normalize_axis(prim.name(), axis, x.rank()));
  const Array starts = expand_dims(wrap_negative(prim.name(), indices, x.shape()[d]), {-1});
  Dims shape = x.shape().to_dims();  // indices.shape in place of the axis
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), indices.shape().begin(),
               indices.shape().end());
  return bind1(prim, {x, starts, broadcast_to(convert(updates, x.dtype()), Shape(shape))},
               scatter_params(take_dims(x.rank(), d, indices.rank()), "fill_or_drop"));
}
}  // namespace

Array scatter_add(const Array& x, const Array& indices, const Array& updates, int axis) {
  return at_axis(scatter_add_p, x, indices, updates, axis);
}

Array scatter_set(const Array& x, const Array& indices, const Array& updates, int axis) {
  return at_axis(scatter_p, x, indices, updates, axis);
}

}  // namespace etrace
