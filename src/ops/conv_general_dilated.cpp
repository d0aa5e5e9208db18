// conv_general_dilated: y[b, o, p] = Σ_{i, t} x[b, i, p·stride - low + t·rhs_dilation] · w[o, i, t], where x
// is first spread out by lhs_dilation; any number of spatial axes, any order of axes, feature or batch
// groups. Bilinear; both cotangents are again convolutions. Groups and batches are regrouped axes, nothing
// else.
#include <algorithm>

#include "etrace/axes.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"
#include "ops/conv_kernel.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

constexpr std::string_view kConv = "conv_general_dilated";

// x has a new leading axis of size n; that axis becomes a factor of `axis` (counted without it), below
// `outer`: axis = (outer, n, rest).
Array into_axis(const Array& x, std::int64_t axis, std::int64_t outer = 1) {
  const std::int64_t n = x.shape()[0];
  const std::size_t at = to_index(axis);
  const Dims sizes = x.shape().without(0).to_dims();
  Dims split = sizes;
  split[at] /= outer;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis), outer);
  Dims order = axis_range(1, to_dim(split.size()));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 0);
  Dims merged = sizes;
  merged[at] *= n;
  return reshape(transpose(reshape(x, with_front(n, split)), order), merged);
}

// The inverse: axis = (outer, n, rest) gives up n, which leads the result.
Array out_of_axis(const Array& x, std::int64_t axis, std::int64_t n, std::int64_t outer = 1) {
  const auto at = static_cast<std::ptrdiff_t>(axis);
  const std::int64_t rest = x.shape()[to_index(axis)] / (outer * n);
  Dims split = x.shape().to_dims();
  split[to_index(axis)] = rest;
  split.insert(split.begin() + at, {outer, n});
  Dims merged = x.shape().to_dims();
  merged[to_index(axis)] = outer * rest;
  return reshape(moveaxis(reshape(x, split), static_cast<int>(axis) + 1, 0), with_front(n, merged));
}

// The leading factor n of one axis becomes that of another.
Array regroup(const Array& x, std::int64_t from, std::int64_t into, std::int64_t n) {
  return n == 1 ? x : into_axis(out_of_axis(x, from, n), into);
}

Dims swapped(Dims spec) {
  std::swap(spec[0], spec[1]);
  return spec;
}

Array bind_conv(const Array& x, const Array& w, const ConvOptions& o) {
  return bind1(conv_general_dilated_p, {x, w}, conv_params(o));
}

// ct convolved with the kernel backwards; strides and the spreading of x change places.
Array input_cotangent(const Array& ct, const Array& w, const Aval& x, const ConvOptions& o) {
  const std::int64_t groups = o.feature_group_count * o.batch_group_count;
  ConvOptions t = o;
  t.lhs_spec = o.out_spec;
  t.rhs_spec = swapped(o.rhs_spec);
  t.out_spec = o.lhs_spec;
  t.strides = o.lhs_dilation;
  t.lhs_dilation = o.strides;
  t.feature_group_count = groups;
  t.batch_group_count = 1;
  const Dims in = spatial_sizes(x.shape, o.lhs_spec), kernel = spatial_sizes(w.shape(), o.rhs_spec);
  const Dims out = spatial_sizes(ct.shape(), o.out_spec);
  for (std::size_t d = 0; d < in.size(); ++d) {
    const std::int64_t window = dilated_size(kernel[d], o.rhs_dilation[d]),
                       low = window - 1 - o.padding[d].first;
    const std::int64_t needed = dilated_size(in[d], o.lhs_dilation[d]) + window - 1;
    t.padding[d] = {low, needed - dilated_size(out[d], o.strides[d]) - low};
  }
  const Array backwards =
      rev(regroup(w, o.rhs_spec[0], o.rhs_spec[1], groups), Dims(o.rhs_spec.begin() + 2, o.rhs_spec.end()));
  // The images of a batch group come out side by side as features.
  return regroup(bind_conv(ct, backwards, t), o.lhs_spec[1], o.lhs_spec[0], o.batch_group_count);
}

// x convolved with ct as the kernel: batch and features of x change places, and so do stride and kernel
// dilation.
Array kernel_cotangent(const Array& ct, const Array& x, const Aval& w, const ConvOptions& o) {
  ConvOptions t = o;
  t.lhs_spec = swapped(o.lhs_spec);
  t.rhs_spec = swapped(o.out_spec);
  t.out_spec = swapped(o.rhs_spec);
  t.strides = o.rhs_dilation;
  t.rhs_dilation = o.strides;
  t.feature_group_count = o.batch_group_count;
  t.batch_group_count = o.feature_group_count;
  const Dims in = spatial_sizes(x.shape(), o.lhs_spec), kernel = spatial_sizes(w.shape, o.rhs_spec);
  const Dims out = spatial_sizes(ct.shape(), o.out_spec);
  for (std::size_t d = 0; d < in.size(); ++d) {
    const std::int64_t needed =
        dilated_size(out[d], o.strides[d]) + dilated_size(kernel[d], o.rhs_dilation[d]) - 1;
    t.padding[d].second = needed - dilated_size(in[d], o.lhs_dilation[d]) - o.padding[d].first;
  }
  return bind_conv(x, ct, t);
}

// Images stay apart, and so do channels that have a kernel of their own.
AxisTable conv_axes(const EmitRequest& q) {
  const ConvOptions o = conv_options(q.params, q.x(0).shape.rank());
  const std::size_t images = to_index(o.out_spec[0]), features = to_index(o.out_spec[1]);
  AxisTable t(q);
  if (o.batch_group_count == 1) {
    t.keep(images, 0, to_index(o.lhs_spec[0]));
    t.at(images, 1) = {AxisSource::Same};
    t.keep(features, 1, to_index(o.rhs_spec[0]));
    const std::int64_t channels = q.x(0).shape[to_index(o.lhs_spec[1])];
    if (o.feature_group_count == 1)
      t.at(features, 0) = {AxisSource::Same};
    else if (o.feature_group_count == channels && q.y().shape[features] == channels)
      t.keep(features, 0, to_index(o.lhs_spec[1]));
  }
  return t;
}

Avals conv_types(const Params& params, std::span<const Aval> in) {
  expect_operands(kConv, in, 2);
  const Aval &x = in[0], &w = in[1];
  if (x.dtype != w.dtype)
    refuse_type(kConv, "the operands " + to_string(x) + " and " + to_string(w) +
                           " differ in element type; convert them to one type first");
  expect_number(kConv, x.dtype);
  if (params.has("preferred_element_type") && params.dtype("preferred_element_type") != x.dtype)
    throw NotSupportedError(std::string(kConv), "preferred_element_type differs from the operands' type " +
                                                    std::string(name(x.dtype)) +
                                                    "; convert the operands instead");
  if (x.shape.rank() != w.shape.rank())
    refuse(kConv, "input " + to_string(x) + " and kernel " + to_string(w) + " must have the same rank");
  const ConvOptions o = conv_options(params, x.shape.rank());
  const std::int64_t images = x.shape[to_index(o.lhs_spec[0])], features = x.shape[to_index(o.lhs_spec[1])];
  const std::int64_t out_features = w.shape[to_index(o.rhs_spec[0])],
                     channels = w.shape[to_index(o.rhs_spec[1])];
  if (features != channels * o.feature_group_count)
    refuse(kConv, "input " + to_string(x) + " has " + std::to_string(features) + " features, but kernel " +
                      to_string(w) + " takes " + std::to_string(channels) + " in each of " +
                      std::to_string(o.feature_group_count) + " groups");
  if (out_features % (o.feature_group_count * o.batch_group_count) != 0 || images % o.batch_group_count != 0)
    refuse(kConv, "the groups must divide the " + std::to_string(out_features) +
                      " output features and batch groups the " + std::to_string(images) +
                      " images; there are " + std::to_string(o.feature_group_count) + " feature and " +
                      std::to_string(o.batch_group_count) + " batch groups");
  Dims out(x.shape.rank());
  out[to_index(o.out_spec[0])] = images / o.batch_group_count;
  out[to_index(o.out_spec[1])] = out_features;
  const Dims spatial = conv_spatial_output(o, x.shape, w.shape);
  for (std::size_t d = 0; d < spatial.size(); ++d) out[to_index(o.out_spec[d + 2])] = spatial[d];
  return {{x.dtype, out}};
}

Arrays batch_conv(const Params& params, ArraySpan x, const std::vector<bool>& batched, std::int64_t n) {
  ConvOptions o = conv_options(params, x[0].rank() - (batched[0] ? 1 : 0));
  const std::int64_t groups = o.feature_group_count * o.batch_group_count;
  if (n == 0) {  // nothing to compute, and sizes that were multiplied by 0 could not be told apart again
    Avals single = avals_of(x);
    for (std::size_t i = 0; i < 2; ++i)
      if (batched[i]) single[i].shape = single[i].shape.without(0);
    const Aval out = conv_types(params, single)[0];
    return {zeros_of({out.dtype, out.shape.with_front(0)})};
  }
  if (batched[0] && batched[1]) {  // every entry of the batch is a group of its own
    const bool by_batch = o.batch_group_count > 1;
    (by_batch ? o.batch_group_count : o.feature_group_count) *= n;
    const Array y =
        bind_conv(into_axis(x[0], o.lhs_spec[by_batch ? 0 : 1]), into_axis(x[1], o.rhs_spec[0]), o);
    return {out_of_axis(y, o.out_spec[1], n)};
  }
  if (batched[0])
    return {out_of_axis(bind_conv(into_axis(x[0], o.lhs_spec[0], o.batch_group_count), x[1], o),
                        o.out_spec[0], n)};
  return {out_of_axis(bind_conv(x[0], into_axis(x[1], o.rhs_spec[0], groups), o), o.out_spec[1], n, groups)};
}

Samples conv_samples(std::uint64_t seed) {
  Source r(seed);
  const std::int64_t n = r.integer(4, 7), k = r.integer(1, 3);
  auto with = [](std::size_t spatial, const auto& change) {
    ConvOptions o;
    o.strides = o.lhs_dilation = o.rhs_dilation = Dims(spatial, 1);
    o.padding.assign(spatial, {0, 0});
    o.lhs_spec = o.rhs_spec = o.out_spec = axis_range(0, to_dim(spatial) + 2);
    change(o);
    return conv_params(o);
  };
  return {
      {{r.floats({2, 3, n}), r.floats({4, 3, k})},
       with(1,
            [](ConvOptions& o) {
              o.padding = {{1, 2}};
            })},
      {{r.floats({2, n, 3}), r.floats({k, 3, 2})},
       with(1,
            [](ConvOptions& o) {
              o.lhs_spec = o.out_spec = {0, 2, 1};
              o.rhs_spec = {2, 1, 0};
              o.strides = {2};
            })},
      {{r.floats({1, n, 5, 2}), r.floats({2, 3, 2, 3})},
       with(2,
            [](ConvOptions& o) {
              o.lhs_spec = o.out_spec = {0, 3, 1, 2};
              o.rhs_spec = {3, 2, 0, 1};
              o.padding = {{1, 0}, {1, 1}};
              o.strides = {1, 2};
            })},
      {{r.floats({2, 2, n}), r.floats({2, 2, 2})},
       with(1,
            [](ConvOptions& o) {
              o.lhs_dilation = {2};
              o.rhs_dilation = {3};
              o.padding = {{2, 1}};
            })},
      {{r.floats({1, 2, n + 2}), r.floats({2, 2, 2})},
       with(1,
            [](ConvOptions& o) {
              o.padding = {{-1, -2}};
            })},
      {{r.floats({2, 4, n}), r.floats({6, 2, k})},
       with(1,
            [](ConvOptions& o) {
              o.feature_group_count = 2;
              o.strides = {2};
              o.padding = {{0, 1}};
            })},
      {{r.floats({4, 3, n}), r.floats({6, 3, 2})},
       with(1,
            [](ConvOptions& o) {
              o.batch_group_count = 2;
              o.rhs_dilation = {2};
            })},
      {{r.floats({1, 2, 3, 4, 3}), r.floats({2, 2, 2, 1, 2})},
       with(3,
            [](ConvOptions& o) {
              o.strides = {1, 2, 1};
            })},
      {{r.floats({3, 2}), r.floats({4, 2})}, with(0, [](ConvOptions&) {})},
      {{r.floats({1, 2, 2}), r.floats({3, 2, 4})}, with(1, [](ConvOptions&) {})},  // the window does not fit
      {{r.floats({0, 2, n}), r.floats({3, 2, 2})}, with(1, [](ConvOptions&) {})},
      {{r.floats({2, 3, n}, Dtype::F32), r.floats({4, 3, 3}, Dtype::F32)},
       with(1,
            [](ConvOptions& o) {
              o.padding = {{1, 1}};
            }),
       false},
      {{r.ints({1, 2, n}, -5, 5), r.ints({2, 2, 2}, -5, 5)}, with(1, [](ConvOptions&) {}), false}};
}

}  // namespace

const Primitive conv_general_dilated_p{{
    .name = "conv_general_dilated",
    .doc = "y[b, o, p] = Σ x[b, i, p·stride - low + t·dilation]·w[o, i, t] over i and t",
    .params = {"window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers",
               "feature_group_count", "batch_group_count", "preferred_element_type"},
    .ignored_params = {"precision"},
    .product = true,
    .abstract = conv_types,
    .kernel = conv_kernel,
    .axes = conv_axes,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      Array dy;
      if (dx[0].defined()) dy = bind1(conv_general_dilated_p, {dx[0], x[1]}, params);
      if (dx[1].defined()) dy = add_cotangents(dy, bind1(conv_general_dilated_p, {x[0], dx[1]}, params));
      return {dy};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      const ConvOptions o = conv_options(params, in[0].shape.rank());
      Arrays out(2);
      if (!x[0].defined()) out[0] = input_cotangent(ct[0], x[1], in[0], o);
      if (!x[1].defined()) out[1] = kernel_cotangent(ct[0], x[0], in[1], o);
      return out;
    },
    .batch = batch_conv,
    .samples = conv_samples,
}};

Array conv_general_dilated(const Array& x, const Array& kernel, const ConvOptions& options) {
  const Dtype dtype = promote(x.dtype(), kernel.dtype());
  ConvOptions o = options;  // empty lists mean the usual
  const Dims usual = axis_range(0, to_dim(x.rank()));
  if (o.padding.empty() && x.rank() > 2) o.padding.assign(x.rank() - 2, {0, 0});
  for (Dims* spec : {&o.lhs_spec, &o.rhs_spec, &o.out_spec})
    if (spec->empty()) *spec = usual;
  for (Dims* list : {&o.strides, &o.lhs_dilation, &o.rhs_dilation})
    if (list->empty() && x.rank() > 2) list->assign(x.rank() - 2, 1);
  return bind_conv(convert(x, dtype), convert(kernel, dtype), o);
}

std::vector<std::pair<std::int64_t, std::int64_t>> same_padding(const Dims& in, const Dims& kernel,
                                                                const Dims& strides,
                                                                const Dims& rhs_dilation) {
  if (kernel.size() != in.size() || (!strides.empty() && strides.size() != in.size()) ||
      (!rhs_dilation.empty() && rhs_dilation.size() != in.size()))
    refuse("same_padding", "input " + show(in) + ", kernel " + show(kernel) + ", strides " + show(strides) +
                               " and dilation " + show(rhs_dilation) +
                               " must have one entry for each spatial axis");
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const std::int64_t stride = strides.empty() ? 1 : strides[d];
    const std::int64_t window = dilated_size(kernel[d], rhs_dilation.empty() ? 1 : rhs_dilation[d]);
    const std::int64_t positions = (in[d] + stride - 1) / stride;
    const std::int64_t total = std::max<std::int64_t>(0, (positions - 1) * stride + window - in[d]);
    out.emplace_back(total / 2, total - total / 2);
  }
  return out;
}

}  // namespace etrace
