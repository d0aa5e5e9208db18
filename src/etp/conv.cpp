// Convolution (cross-correlation), always batched: y[b,s,k] = Σ_{u,c} x̃[b, s·stride + u·dilation, c]
// f(K)[u,c,k] + g(b), x̃ the input after lhs dilation and padding; any layout with the batch in front.
//
// The kernel is shared over space while hidden states act per position, so the trace keeps the output's
// positions: slots are (space…, kernel…), the slot (s, …, k, …) belongs to the output (s, k), and space is
// summed when the gradient is formed. Feature and batch groups change nothing about that.
#include <algorithm>

#include "etp/common.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"

namespace etrace {

using namespace etp;

namespace {

constexpr const char* kOp = "etp_conv";

// Layout ----------------------------------------------------------------------------------------------------
// JAX's index triples. Data: positions of batch, channel, space…; kernel: positions of out channel, in
// channel, space….
struct Layout {
  Dims lhs, rhs, out;
};

// The positions of two marked letters, then of the spatial letters in the kernel's order.
Dims positions(const std::string& spec, char first, char second, const std::string& space) {
  Dims out;
  for (const char c : std::string{first, second} + space) {
    const std::size_t at = spec.find(c);
    if (at == std::string::npos || spec.find(c, at + 1) != std::string::npos)
      throw ValueError(
          kOp, "the layout \"" + spec + "\" must have the letter '" + std::string(1, c) + "' exactly once");
    out.push_back(to_dim(at));
  }
  if (out.size() != spec.size())
    throw ValueError(kOp, "the layout \"" + spec + "\" has letters other than '" + std::string{first} +
                              "', '" + std::string{second} + "' and the kernel's spatial letters \"" + space +
                              "\"");
  return out;
}

Layout layout_from_text(const std::vector<std::string>& specs) {
  if (specs.size() != 3)
    throw ValueError(
        kOp, "a layout has three strings, for x, kernel and y, such as \"NHWC\", \"HWIO\", \"NHWC\"; " +
                 std::to_string(specs.size()) + " were given");
  std::string space;
  for (const char c : specs[1])
    if (c != 'O' && c != 'I') space += c;
  return {positions(specs[0], 'N', 'C', space), positions(specs[1], 'O', 'I', space),
          positions(specs[2], 'N', 'C', space)};
}

Attr layout_attr(const Layout& l) {
  return Attr::dict({{"lhs_spec", l.lhs}, {"rhs_spec", l.rhs}, {"out_spec", l.out}});
}

Layout layout_of(const Params& params, std::size_t rank) {
  const Attr* attr = params.find("dimension_numbers");
  if (attr == nullptr || attr->is_null()) {
    const Dims in_order = structure::axis_range(0, to_dim(rank));
    return {in_order, in_order, in_order};
  }
  if (const Attr::Dict* dict = attr->dict_items()) {
    const Params p(*dict);
    return {p.dims("lhs_spec"), p.dims("rhs_spec"), p.dims("out_spec")};
  }
  std::vector<std::string> text;
  std::vector<Dims> triples;
  if (const Attr::List* items = attr->list_items())
    for (const Attr& item : *items) {
      if (const auto* s = item.get_if<std::string>()) text.push_back(*s);
      if (const Dims* d = item.ints()) triples.push_back(*d);
    }
  if (text.size() == 3) return layout_from_text(text);
  if (triples.size() == 3) return {triples[0], triples[1], triples[2]};
  throw CompilationError(
      kOp,
      "parameter 'dimension_numbers' must be null, a record with lhs_spec, rhs_spec and out_spec, "
      "or three strings");
}

void check_layout(const Layout& l, std::size_t rank) {
  for (const Dims* spec : {&l.lhs, &l.rhs, &l.out}) {
    Dims sorted = *spec;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != structure::axis_range(0, to_dim(rank)))
      throw ValueError(kOp, "the layout " + structure::show(*spec) + " is no order of the " +
                                std::to_string(rank) + " axes");
  }
  if (l.lhs[0] != 0 || l.out[0] != 0)
    throw NotSupportedError(kOp, "the batch must be the first axis of x and y, but the layout has it at " +
                                     std::to_string(l.lhs[0]) + " and " + std::to_string(l.out[0]) +
                                     "; transpose outside the operator");
}

// Geometry --------------------------------------------------------------------------------------------------
struct Geometry {
  ConvOptions options;  // everything spelled out
  Shape y;
  std::size_t channel_axis() const { return to_index(options.out_spec[1]); }
};

// One number per spatial axis.
Dims per_axis(const Params& params, const char* key, std::size_t count, const Dims& fallback) {
  Dims values = params.dims_or(key, fallback);
  if (values.size() != count)
    throw ValueError(kOp, std::string(key) + " has " + std::to_string(values.size()) +
                              " entries, but x has " + std::to_string(count) +
                              " spatial axes; give one for each");
  for (const std::int64_t v : values)
    if (v < 1) throw ValueError(kOp, std::string(key) + " " + structure::show(values) + " must be positive");
  return values;
}

void set_padding(ConvOptions& o, const Params& params, const Dims& in, const Dims& kernel) {
  const Attr* attr = params.find("padding");
  const auto* text = attr == nullptr ? nullptr : attr->get_if<std::string>();
  if (attr != nullptr && text == nullptr) {
    for (const Dims& pair : structure::int_table(kOp, params, "padding", 2))
      o.padding.emplace_back(pair[0], pair[1]);
    if (o.padding.size() != in.size())
      throw ValueError(kOp, "padding has " + std::to_string(o.padding.size()) + " pairs, but x has " +
                                std::to_string(in.size()) + " spatial axes; give one for each");
    return;
  }
  const std::string kind = text == nullptr ? "SAME" : *text;
  if (kind != "SAME" && kind != "VALID")
    throw ValueError(kOp, "padding \"" + kind + "\" is unknown; expected SAME, VALID or pairs of numbers");
  if (std::any_of(o.lhs_dilation.begin(), o.lhs_dilation.end(), [](std::int64_t d) { return d != 1; }))
    throw ValueError(kOp, "padding \"" + kind + "\" together with lhs_dilation " +
                              structure::show(o.lhs_dilation) +
                              " has no clear meaning; give the padding as pairs of numbers");
  o.padding = kind == "SAME" ? same_padding(in, kernel, o.strides, o.rhs_dilation)
                             : std::vector<std::pair<std::int64_t, std::int64_t>>(in.size(), {0, 0});
}

void check_channels(const ConvOptions& o, const Aval& x, const Aval& kernel) {
  const std::int64_t features = o.feature_group_count, batches = o.batch_group_count;
  const std::int64_t batch = x.shape[0], channels = x.shape[to_index(o.lhs_spec[1])];
  const std::int64_t outs = kernel.shape[to_index(o.rhs_spec[0])],
                     ins = kernel.shape[to_index(o.rhs_spec[1])];
  const std::string where = " (x " + to_string(x) + ", kernel " + to_string(kernel) + ")";
  if (features < 1 || batches < 1 || (features > 1 && batches > 1))
    throw ValueError(kOp, "feature_group_count is " + std::to_string(features) + " and batch_group_count " +
                              std::to_string(batches) + "; they must be positive and one of them 1");
  if (channels != ins * features)
    throw ValueError(kOp, "x has " + std::to_string(channels) + " channels, expected " +
                              std::to_string(ins * features) + ": the kernel's " + std::to_string(ins) +
                              " for each of " + std::to_string(features) + " groups" + where);
  if (outs % features != 0 || outs % batches != 0 || batch % batches != 0)
    throw ValueError(kOp, "the kernel's " + std::to_string(outs) + " output channels and the batch of " +
                              std::to_string(batch) + " must divide by the number of groups, " +
                              std::to_string(features * batches) + where);
}

Geometry geometry(const Params& params, const Aval& x, const Aval& kernel) {
  const std::size_t rank = x.shape.rank();
  if (rank < 3 || kernel.shape.rank() != rank)
    throw ValueError(kOp, "x has type " + to_string(x) + " and the kernel " + to_string(kernel) +
                              "; expected equal ranks: batch, channel and one or more spatial axes");
  const std::size_t n = rank - 2;
  const Layout layout = layout_of(params, rank);
  check_layout(layout, rank);
  Geometry g;
  ConvOptions& o = g.options;
  o.lhs_spec = layout.lhs, o.rhs_spec = layout.rhs, o.out_spec = layout.out;
  o.strides = per_axis(params, "strides", n, {1});  // the default suits one spatial axis only
  o.lhs_dilation = per_axis(params, "lhs_dilation", n, Dims(n, 1));
  o.rhs_dilation = per_axis(params, "rhs_dilation", n, Dims(n, 1));
  o.feature_group_count = params.integer_or("feature_group_count", 1);
  o.batch_group_count = params.integer_or("batch_group_count", 1);
  check_channels(o, x, kernel);

  Dims in, window;
  for (std::size_t i = 0; i < n; ++i) {
    in.push_back(x.shape[to_index(o.lhs_spec[i + 2])]);
    window.push_back(kernel.shape[to_index(o.rhs_spec[i + 2])]);
  }
  set_padding(o, params, in, window);

  Dims y(rank);
  y[0] = x.shape[0] / o.batch_group_count;
  y[g.channel_axis()] = kernel.shape[to_index(o.rhs_spec[0])];
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t dilated = in[i] == 0 ? 0 : (in[i] - 1) * o.lhs_dilation[i] + 1;
    const std::int64_t padded = dilated + o.padding[i].first + o.padding[i].second;
    const std::int64_t reach = window[i] == 0 ? 0 : (window[i] - 1) * o.rhs_dilation[i] + 1;
    y[to_index(o.out_spec[i + 2])] = padded < reach ? 0 : (padded - reach) / o.strides[i] + 1;
  }
  g.y = Shape(y);
  return g;
}

// Rules -----------------------------------------------------------------------------------------------------
Avals abstract(const Params& params, std::span<const Aval> in) {
  const Operands o(kOp, params, in, {"x", {"kernel", "kernel_fn"}});
  const Geometry g = geometry(params, o[0], o[1]);
  if (o.biased()) {
    if (o.bias().shape.rank() == 1) o.expect_bias({g.y[g.channel_axis()]});
    if (numpy_broadcast_shapes(o.bias().shape, g.y) != g.y && o.bias().shape.rank() != 1)
      o.refuse("bias has shape " + to_string(o.bias().shape) + ", which does not broadcast to the result " +
               to_string(g.y) + "; give [channels] or a shape that does");
  }
  return o.result(g.y);
}

Arrays lower(const Params& params, ArraySpan x) {
  const Dtype dtype = common_dtype(x);
  const Array kernel = convert(apply_fn(params, "kernel_fn", x[1]), dtype);
  const Geometry g = geometry(params, x[0].aval(), kernel.aval());
  const Array y = conv_general_dilated(convert(x[0], dtype), kernel, g.options);
  if (!has_bias(params)) return {y};
  const Array bias = convert(apply_fn(params, "bias_fn", x[2]), dtype);
  if (bias.rank() != 1) return {y + bias};
  Dims along_channels(g.y.rank(), 1);
  along_channels[g.channel_axis()] = bias.size();
  return {y + reshape(bias, along_channels)};
}

// A bias has the slots of y; where it is broadcast, the trace keeps the positions.
AnchorMap bias_anchors(const Geometry& g, const Shape& bias) {
  AnchorMap map = anchored_at_self(g.y.without(0));
  if (bias.rank() == g.y.rank() && bias[0] != 1)
    throw NotSupportedError(kOp, "a bias of shape " + to_string(bias) +
                                     " differs between samples of the batch and cannot be learned online");
  for (std::size_t a = 1; a < g.y.rank(); ++a) {
    const std::size_t missing =
        g.y.rank() - std::min(g.y.rank(), bias.rank());  // axes that NumPy's rule puts in front
    const bool present =
        bias.rank() == 1 ? a == g.channel_axis() : a >= missing && bias[a - missing] == g.y[a];
    if (!present) map.position_axes.push_back(static_cast<int>(a) - 1);
  }
  return map;
}

AnchorMap anchors(const Params& params, std::string_view key, std::span<const Aval> in, const Aval&) {
  const Geometry g = geometry(params, in[0], in[1]);
  if (key == "bias") return bias_anchors(g, in[2].shape);
  AnchorMap map;
  const int space = static_cast<int>(g.y.rank()) - 2;
  Dims slots;
  for (std::size_t a = 1; a < g.y.rank(); ++a) {
    if (a == g.channel_axis()) {
      map.y_axes.push_back(space + static_cast<int>(g.options.rhs_spec[0]));
      continue;
    }
    map.y_axes.push_back(static_cast<int>(slots.size()));
    map.position_axes.push_back(static_cast<int>(slots.size()));
    slots.push_back(g.y[a]);
  }
  slots.insert(slots.end(), in[1].shape.begin(), in[1].shape.end());
  map.slots = Shape(slots);
  return map;
}

// Which element of one sample's input each (group, position, kernel element of one output channel) reads; the
// element behind the last is the zero of the padding.
class Patches {
 public:
  Patches(const Geometry& g, const Shape& x, const Shape& kernel)
      : o_(g.options), x_(x), groups_(o_.feature_group_count * o_.batch_group_count) {
    dims_.push_back(groups_);
    for (std::size_t a = 1; a < g.y.rank(); ++a)
      if (a != g.channel_axis()) dims_.push_back(g.y[a]);
    for (std::size_t a = 0; a < kernel.rank(); ++a) dims_.push_back(a == out_axis() ? 1 : kernel[a]);
    sample_ = x.without(0).size() * o_.batch_group_count;
    // For each spatial axis: where its position stands among dims_. Positions of y keep the order of y's
    // axes.
    for (std::size_t i = 0; i < space(); ++i) {
      std::size_t at = 1;
      for (std::size_t k = 0; k < space(); ++k) at += o_.out_spec[k + 2] < o_.out_spec[i + 2] ? 1 : 0;
      position_.push_back(at);
    }
  }

  const Dims& dims() const { return dims_; }
  std::int64_t sample_size() const { return sample_; }

  std::vector<std::int64_t> table() const {
    const Shape shape(dims_);
    const Dims strides = strides_of(shape);
    std::vector<std::int64_t> out;
    for (std::int64_t flat = 0; flat < shape.size(); ++flat) {
      Dims at;
      for (std::size_t a = 0; a < dims_.size(); ++a) at.push_back(flat / strides[a] % dims_[a]);
      out.push_back(element(at));
    }
    return out;
  }

 private:
  std::size_t space() const { return x_.rank() - 2; }
  std::size_t out_axis() const { return to_index(o_.rhs_spec[0]); }
  // An index of the kernel's axis `a`.
  std::int64_t of_kernel(const Dims& at, std::int64_t a) const { return at[1 + space() + to_index(a)]; }

  std::int64_t element(const Dims& at) const {
    Dims index(x_.rank(), 0);
    const std::int64_t channel = of_kernel(at, o_.rhs_spec[1]), group = at[0];
    const bool by_feature = o_.feature_group_count > 1;
    index[to_index(o_.lhs_spec[1])] =
        channel + (by_feature ? group * (x_[to_index(o_.lhs_spec[1])] / groups_) : 0);
    for (std::size_t i = 0; i < space(); ++i) {
      const std::int64_t place = at[position_[i]] * o_.strides[i] +
                                 of_kernel(at, o_.rhs_spec[i + 2]) * o_.rhs_dilation[i] - o_.padding[i].first;
      const std::int64_t coordinate = place / o_.lhs_dilation[i];
      if (place < 0 || place % o_.lhs_dilation[i] != 0 || coordinate >= x_[to_index(o_.lhs_spec[i + 2])])
        return sample_;
      index[to_index(o_.lhs_spec[i + 2])] = coordinate;
    }
    std::int64_t flat = by_feature ? 0 : group;  // batch groups: one sample of each, side by side
    for (std::size_t a = 1; a < x_.rank(); ++a) flat = flat * x_[a] + index[a];
    return flat;
  }

  const ConvOptions& o_;
  const Shape x_;
  std::int64_t groups_, sample_ = 0;
  std::vector<std::size_t> position_;
  Dims dims_;
};

// Without groups, the element that slot (s, u, c, k) reads of the padded input moves by a fixed step along
// every slot axis. Slots are (space…, kernel…).
Dims source_strides(const Geometry& g, const Shape& padded, std::size_t rank) {
  const ConvOptions& o = g.options;
  const Dims own = strides_of(padded.without(0));
  const auto of_axis = [&](std::int64_t a) { return own[to_index(a) - 1]; };
  Dims out;
  for (std::size_t a = 1; a < rank; ++a)
    for (std::size_t i = 0; i + 2 < rank; ++i)
      if (to_index(o.out_spec[i + 2]) == a) out.push_back(o.strides[i] * of_axis(o.lhs_spec[i + 2]));
  Dims kernel(rank, 0);  // 0 along the output channels
  kernel[to_index(o.rhs_spec[1])] = of_axis(o.lhs_spec[1]);
  for (std::size_t i = 0; i + 2 < rank; ++i)
    kernel[to_index(o.rhs_spec[i + 2])] = o.rhs_dilation[i] * of_axis(o.lhs_spec[i + 2]);
  out.insert(out.end(), kernel.begin(), kernel.end());
  return out;
}

std::optional<TraceSource> source_of_padded(const Params& params, const Geometry& g, ArraySpan x) {
  const ConvOptions& o = g.options;
  std::vector<PadAxis> axes(x[0].rank());
  for (std::size_t i = 0; i < o.padding.size(); ++i)
    axes[to_index(o.lhs_spec[i + 2])] = {o.padding[i].first, o.padding[i].second, o.lhs_dilation[i] - 1};
  const Dtype dtype = common_dtype(x);
  const Array padded = pad(convert(x[0], dtype), convert(Array(0.0), dtype), axes);
  std::optional<TraceSource> s = trace_source(params, "kernel_fn", x[1], padded);
  if (s) s->strides = source_strides(g, padded.shape(), x[0].rank());
  return s;
}

// ∂y[s,k]/∂K[u,c,k] = x̃[s·stride + u·dilation, c]: the patches of the input.
std::optional<TraceSource> source(const Params& params, std::string_view key, ArraySpan x) {
  if (key == "bias") return trace_source(params, "bias_fn", x[2]);
  const Geometry g = geometry(params, x[0].aval(), x[1].aval());
  if (g.options.feature_group_count * g.options.batch_group_count == 1) return source_of_padded(params, g, x);
  const std::int64_t batches = g.options.batch_group_count, batch = x[0].shape()[0] / batches;
  const Patches patches(g, x[0].shape(), x[1].shape());
  const Shape elements(patches.dims());
  Array data = convert(x[0], common_dtype(x));
  if (batches > 1)
    data = transpose(reshape(data, {batches, batch, patches.sample_size() / batches}), {1, 0, 2});
  data = reshape(data, {batch, patches.sample_size()});
  data = concatenate(Arrays{data, zeros_of({data.dtype(), {batch, 1}})}, 1);
  const Array index = Tensor::of(patches.table(), {elements.size()});
  const Array values = take(data, index, 1);

  // Slots are (space…, kernel…); values (group, space…, kernel… with one output channel).
  const Shape slots = anchors(params, key, avals_of(x), {values.dtype(), g.y}).slots;
  const std::size_t out_axis = slots.rank() - x[1].rank() + to_index(g.options.rhs_spec[0]);
  std::optional<TraceSource> s = trace_source(params, "kernel_fn", x[1], values);
  const Dims slot_strides = strides_of(slots), value_strides = strides_of(elements);
  const std::int64_t per_group = slots[out_axis] / elements[0];
  Dims table;
  for (std::int64_t slot = 0; s && slot < slots.size(); ++slot) {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < slots.rank(); ++a) {
      const std::int64_t i = slot / slot_strides[a] % slots[a];
      at += a == out_axis ? i / per_group * value_strides[0] : i * value_strides[a + 1];
    }
    table.push_back(at);
  }
  if (s) s->table = table;
  return s;
}

Samples samples(std::uint64_t seed) {
  Source r(seed);
  const std::int64_t n = r.integer(1, 2), c = r.integer(1, 2), k = r.integer(1, 3), len = r.integer(3, 6);
  const Attr nhwc = layout_attr(layout_from_text({"NHWC", "HWIO", "NHWC"}));
  const Array w = r.floats({k, c, 3}), b = r.floats({k});
  const Attr sine = trace_fn(
      kOp, "kernel_fn", [](const Array& a) { return sin(a); }, w);
  const Attr bias_tanh = trace_fn(
      kOp, "bias_fn", [](const Array& a) { return tanh(a); }, b);
  return {{{r.floats({n, c, len}), w}, {{"strides", Dims{1}}, {"padding", "SAME"}}},
          {{r.floats({n, c, len}), w, b},
           {{"has_bias", true}, {"strides", Dims{2}}, {"kernel_fn", sine}, {"bias_fn", bias_tanh}}},
          {{r.floats({n, 4, 3, c}), r.floats({2, 2, c, k}), r.floats({1, k})},
           {{"has_bias", true}, {"strides", Dims{1, 2}}, {"padding", "VALID"}, {"dimension_numbers", nhwc}}},
          {{r.floats({n, c, len}), r.floats({k, c, 2}), r.floats({1, k, 1})},
           {{"has_bias", true},
            {"padding", structure::to_attr({{2, 1}})},
            {"lhs_dilation", Dims{2}},
            {"rhs_dilation", Dims{2}}}},
          {{r.floats({n, 4, len}), r.floats({6, 2, 2}), r.floats({6})},
           {{"has_bias", true}, {"feature_group_count", 2}}},
          {{r.floats({4, c, len}), r.floats({2 * k, c, 2})}, {{"batch_group_count", 2}}},
          {{r.floats({n, c, 0}), w}, {{"padding", "VALID"}}},
          {{r.floats({n, 2, len}, Dtype::F32), r.floats({1, 2, 3}, Dtype::F32)}, {}}};
}

// Mapped over x alone, the lanes join the batch, so that the operator keeps its identity.
Arrays batch(const Params& params, ArraySpan x, const std::vector<bool>& batched, std::int64_t n) {
  const bool over_x = batched[0] && std::count(batched.begin(), batched.end(), true) == 1;
  if (!over_x || params.integer_or("batch_group_count", 1) != 1)
    return promoting_batch(*etp_rules(etp_conv_p), lower, params, x, batched, n);
  Arrays in(x.begin(), x.end());
  Dims dims = x[0].shape().to_dims();
  const std::int64_t per_lane = dims[1];
  dims[1] *= n;
  dims.erase(dims.begin());
  in[0] = reshape(x[0], dims);  // [n, B, …] -> [n·B, …]
  const Array y = bind_primitive(etp_conv_p, in, params)[0];
  dims = y.shape().to_dims();
  dims[0] = per_lane;
  dims.insert(dims.begin(), n);
  return {reshape(y, dims)};
}

std::vector<Trainable> trainables(const Params& params) {
  std::vector<Trainable> out = weight_and_bias(params);
  out[0].fn = "kernel_fn";
  return out;
}

}  // namespace

const Primitive etp_conv_p{{
    .name = kOp,
    .doc = "y = conv(x, f(K)) + g(b)",
    .params = {"has_bias", "strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count",
               "batch_group_count", "dimension_numbers", "kernel_fn", "bias_fn"},
    .abstract = abstract,
    .lower = lower,
    .batch = batch,
    .etp = make_etp({.batched = true, .trainables = trainables, .anchors = anchors, .source = source}),
    .samples = samples,
}};

Array conv(const Array& x, const Array& kernel, const Array& bias, const EtpConvOptions& options) {
  auto optional = [](const Dims& d) { return d.empty() ? Attr() : Attr(d); };
  Attr padding = options.padding;
  if (!options.explicit_padding.empty()) {
    std::vector<Dims> pairs;
    for (const auto& [low, high] : options.explicit_padding) pairs.push_back({low, high});
    padding = structure::to_attr(pairs);
  }
  return bind_with_bias(
      etp_conv_p, {x, kernel}, bias, options.bias_fn,
      {{"strides", options.strides.empty() ? Dims{1} : options.strides},
       {"padding", std::move(padding)},
       {"lhs_dilation", optional(options.lhs_dilation)},
       {"rhs_dilation", optional(options.rhs_dilation)},
       {"feature_group_count", options.feature_group_count},
       {"batch_group_count", options.batch_group_count},
       {"dimension_numbers", options.layout.empty() ? Attr() : layout_attr(layout_from_text(options.layout))},
       {"kernel_fn", trace_fn(kOp, "kernel_fn", options.kernel_fn, kernel)}});
}

}  // namespace etrace
