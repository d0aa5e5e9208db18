// Operations that are neither loops over positions nor products, for a CUDA device: one thread for every
// element of the result, or for every line. What a result is made of is walked in one order, by one thread,
// so that results do not depend on how threads come and go.
#include <fmt/format.h>

#include <algorithm>

#include "emit/cuda_kernels.h"
#include "emit/target.h"
#include "etrace/error.h"
#include "ops/index_common.h"

namespace etrace::emit {

namespace row_kernels {
namespace {

using structure::to_index;

// The body of a kernel while it grows.
class Text {
 public:
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... args) {
    text_ += std::string(2 * depth_, ' ') + fmt::format(format, std::forward<A>(args)...) + "\n";
  }
  template <class... A>
  void open(fmt::format_string<A...> format, A&&... args) {
    line("{} {{", fmt::format(format, std::forward<A>(args)...));
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }
  // A thread for each of so many positions, i.
  void positions(Index count) {
    line("const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;");
    line("if (i >= {}) return;", count);
    count_ = count;
  }
  void pointer(std::size_t k, Dtype dtype, const std::string& name, bool written = false) {
    const char* constant = written ? "" : "const ";
    line("{0}{1}* const {2} = ({0}{1}*)p.at[{3}];", constant, c_type(dtype), name, k);
  }
  // c0, c1 … of element i of an array of this shape.
  void coordinates(const Shape& shape) {
    const Dims strides = strides_of(shape);
    for (std::size_t a = 0; a < shape.rank(); ++a)
      line("const int64_t c{0} = i / {1} % {2};", a, strides[a], shape[a]);
    for (std::size_t a = 0; a < shape.rank(); ++a) line("(void)c{};", a);
  }
  CudaCode code() && {
    CudaCode out{std::move(text_)};
    out.blocks = (count_ + 255) / 256;
    return out;
  }

 private:
  std::string text_;
  std::size_t depth_ = 1;
  Index count_ = 1;
};

void launch(CudaBuilder& b, const Call& q, Text text) {
  std::vector<CudaPlace> pointers;
  for (const ValueId v : q.in) pointers.push_back(b.place(v));
  for (const ValueId v : q.out) pointers.push_back(b.place(v));
  std::string label(q.prim->name());
  b.launch(label + "_", std::move(text).code(), std::move(pointers), q.eqn);
}

// Lines of entries along one axis: thread i has one, which starts at `first` and goes on by `step`.
struct LineWalk {
  LineWalk(Text& t, const Shape& shape, Index axis)
      : n(shape[to_index(axis)]), step(strides_of(shape)[to_index(axis)]) {
    t.positions(shape.size() / std::max<Index>(n, 1));
    t.line("const int64_t first = i / {0} * {1} + i % {0};", step, n * step);
  }
  Index n, step;
};

// The first extreme element, or the first NaN.
template <bool Max>
void arg_extreme(CudaBuilder& b, const EmitProgram&, const Call& q) {
  if (q.out_types[0].shape.size() == 0) return;
  Text t;
  const LineWalk w(t, q.in_types[0].shape, q.params.dims("axes")[0]);
  t.pointer(0, q.in_types[0].dtype, "x");
  t.pointer(1, q.out_types[0].dtype, "y", true);
  const auto type = c_type(q.in_types[0].dtype);
  t.line("{} best = x[first];", type);
  t.line("int64_t at = 0;");
  t.open("for (int64_t k = 1; k < {} && best == best; ++k)", w.n);
  t.line("const {} v = x[first + k * {}];", type, w.step);
  t.line("if (v {} best || v != v) best = v, at = k;", Max ? ">" : "<");
  t.close();
  t.line("y[i] = ({})at;", c_type(q.out_types[0].dtype));
  launch(b, q, std::move(t));
}

struct Running {
  std::string declare, next;  // v is the entry; `out` the result so far
};
Running running_of(std::string_view operation, Dtype dtype) {
  const std::string type(c_type(dtype)), s(short_name(dtype));
  const bool floating = is_floating(dtype);
  const std::string sum = floating ? "double" : type;
  if (operation == "cumsum")
    return {sum + " total = 0;", floating ? "total += (double)v; out = (" + type + ")total;"
                                          : "out = total = etp_add_" + s + "(total, v);"};
  if (operation == "cumprod")
    return {sum + " total = 1;", floating ? "total *= (double)v; out = (" + type + ")total;"
                                          : "out = total = etp_mul_" + s + "(total, v);"};
  if (operation == "cumlogsumexp")
    return {"double top = -__builtin_inf(), scaled = 0.0;",
            "const double d = (double)v, old = top; if (d > top || d != d) top = d; "
            "if (!etp_is_finite_f64(top)) { out = (" +
                type +
                ")top; } else { "
                "scaled = scaled * etp_exp_f64(old - top) + etp_exp_f64(d - top); "
                "out = (" +
                type + ")(top + etp_log_f64(scaled)); }"};
  const bool max = operation == "cummax";
  return {type + " best = v;", fmt::format("out = best = etp_fold_{}_{}(best, v);", max ? "max" : "min", s)};
}

void cumulative(CudaBuilder& b, const EmitProgram&, const Call& q) {
  const Shape& shape = q.in_types[0].shape;
  if (shape.size() == 0) return;
  const Dtype dtype = q.in_types[0].dtype;
  Text t;
  const LineWalk w(t, shape, q.params.integer("axis"));
  t.pointer(0, dtype, "x");
  t.pointer(1, dtype, "y", true);
  const bool down = q.params.boolean_or("reverse", false);
  const std::string from = down ? fmt::format("first + {}", (w.n - 1) * w.step) : "first";
  const Running r = running_of(q.prim->name(), dtype);
  t.line("{} v = x[{}], out;", c_type(dtype), from);
  t.line("{}", r.declare);
  t.open("for (int64_t k = 0; k < {}; ++k)", w.n);
  t.line("const int64_t at = {} {} k * {};", from, down ? "-" : "+", w.step);
  t.line("v = x[at];");
  t.line("{}", r.next);
  t.line("y[at] = out;");
  t.close();
  launch(b, q, std::move(t));
}

// Every element of y looks through the index vectors, in their order, for windows that it lies in.
template <bool Add>
void scatter(CudaBuilder& b, const EmitProgram&, const Call& q) {
  const Aval &x = q.in_types[0], &indices = q.in_types[1], &updates = q.in_types[2];
  if (x.shape.size() == 0) return;
  const structure::WindowDims d = structure::scatter_dims(q.params);
  const Dims sizes = structure::update_window_sizes("scatter", d, x, updates);
  const bool drops = structure::mode_of("scatter", q.params) == structure::Mode::FillOrDrop;
  const Dims in_indices = strides_of(indices.shape), in_updates = strides_of(updates.shape);
  const Dims vectors = structure::other_axes(updates.shape.rank(), d.window);
  Text t;
  t.positions(x.shape.size());
  t.pointer(0, x.dtype, "x");
  t.pointer(1, indices.dtype, "indices");
  t.pointer(2, updates.dtype, "updates");
  t.pointer(3, x.dtype, "y", true);
  t.coordinates(x.shape);
  t.line("{} v = x[i];", c_type(x.dtype));
  std::string at_index = "0", at_update = "0";
  std::size_t open = 0;
  for (std::size_t k = 0; k + 1 < indices.shape.rank(); ++k) {
    const auto batching =
        std::find(d.indices_batching.begin(), d.indices_batching.end(), static_cast<Index>(k));
    std::string variable = fmt::format("b{}", k);
    if (batching != d.indices_batching.end()) {
      variable = fmt::format("c{}", d.operand_batching[to_index(batching - d.indices_batching.begin())]);
    } else {
      t.open("for (int64_t {0} = 0; {0} < {1}; ++{0})", variable, indices.shape[k]);
      ++open;
    }
    at_index += fmt::format(" + {} * {}", variable, in_indices[k]);
    at_update += fmt::format(" + {} * {}", variable, in_updates[to_index(vectors[k])]);
  }
  t.line("bool inside = true;");
  std::size_t shown = 0;
  for (std::size_t a = 0; a < x.shape.rank(); ++a) {
    const auto axis = static_cast<Index>(a);
    if (structure::contains(d.operand_batching, axis)) continue;
    const auto mapped = std::find(d.index_map.begin(), d.index_map.end(), axis);
    std::string start = "0";
    if (mapped != d.index_map.end()) {
      start = fmt::format("s{}", a);
      const Index limit = x.shape[a] - sizes[a];
      t.line("int64_t {} = (int64_t)indices[{} + {}];", start, at_index, mapped - d.index_map.begin());
      if (drops)
        t.line("inside = inside && {0} >= 0 && {0} <= {1};", start, limit);
      else
        t.line("{0} = etp_clip({0}, {1});", start, limit);
    }
    t.line("inside = inside && c{0} >= {1} && c{0} < {1} + {2};", a, start, sizes[a]);
    if (!structure::contains(d.collapsed, axis))
      at_update += fmt::format(" + (c{} - {}) * {}", a, start, in_updates[to_index(d.window[shown++])]);
  }
  const std::string value = fmt::format("updates[{}]", at_update);
  t.line("if (inside) v = {};", !Add ? value
                                : is_floating(x.dtype)
                                    ? "v + " + value
                                    : fmt::format("etp_add_{}(v, {})", short_name(x.dtype), value));
  for (; open > 0; --open) t.close();
  t.line("y[i] = v;");
  launch(b, q, std::move(t));
}

void dynamic_update_slice(CudaBuilder& b, const EmitProgram&, const Call& q) {
  const Shape &x = q.in_types[0].shape, &update = q.in_types[1].shape;
  if (x.size() == 0) return;
  const Dims strides = strides_of(update);
  Text t;
  t.positions(x.size());
  t.pointer(0, q.in_types[0].dtype, "x");
  t.pointer(1, q.in_types[1].dtype, "update");
  t.pointer(q.in.size(), q.in_types[0].dtype, "y", true);
  t.coordinates(x);
  t.line("bool inside = true;");
  std::string at = "0";
  for (std::size_t a = 0; a < x.rank(); ++a) {
    t.line("const int64_t s{} = etp_clip((int64_t)*(const {}*)p.at[{}], {});", a,
           c_type(q.in_types[a + 2].dtype), a + 2, x[a] - update[a]);
    t.line("inside = inside && c{0} >= s{0} && c{0} < s{0} + {1};", a, update[a]);
    at += fmt::format(" + (c{0} - s{0}) * {1}", a, strides[a]);
  }
  t.line("y[i] = inside ? update[{}] : x[i];", at);
  launch(b, q, std::move(t));
}

// An element of the result, counted from `low`, lies on an entry of x or between two.
void pad(CudaBuilder& b, const EmitProgram&, const Call& q) {
  const Shape &x = q.in_types[0].shape, &y = q.out_types[0].shape;
  if (y.size() == 0) return;
  const std::vector<Dims> config = structure::int_table("pad", q.params, "padding_config", 3);
  const Dims strides = strides_of(x);
  Text t;
  t.positions(y.size());
  t.pointer(0, q.in_types[0].dtype, "x");
  t.pointer(1, q.in_types[1].dtype, "fill");
  t.pointer(2, q.out_types[0].dtype, "y", true);
  t.coordinates(y);
  t.line("bool inside = true;");
  std::string at = "0";
  for (std::size_t a = 0; a < y.rank(); ++a) {
    const Index low = config[a][0], every = config[a][2] + 1;
    t.line("const int64_t d{0} = c{0} - ({1});", a, low);
    t.line("inside = inside && d{0} >= 0 && d{0} % {1} == 0 && d{0} / {1} < {2};", a, every, x[a]);
    at += fmt::format(" + d{} / {} * {}", a, every, strides[a]);
  }
  t.line("y[i] = inside ? x[{}] : fill[0];", at);
  launch(b, q, std::move(t));
}

// How many entries of its line come before it is where an entry goes.
void sort(CudaBuilder& b, const EmitProgram&, const Call& q) {
  const Shape& shape = q.in_types[0].shape;
  if (shape.size() == 0) return;
  const auto axis = to_index(q.params.integer("dimension"));
  const auto keys = to_index(q.params.integer_or("num_keys", 1));
  const Index n = shape[axis], step = strides_of(shape)[axis];
  Text t;
  t.positions(shape.size());
  t.line("const int64_t own = i / {} % {}, first = i - own * {};", step, n, step);
  for (std::size_t k = 0; k < q.in.size(); ++k) {
    t.pointer(k, q.in_types[k].dtype, fmt::format("x{}", k));
    t.pointer(q.in.size() + k, q.in_types[k].dtype, fmt::format("y{}", k), true);
  }
  t.line("int64_t before = 0;");
  t.open("for (int64_t k = 0; k < {}; ++k)", n);
  t.line("const int64_t at = first + k * {};", step);
  t.line("int order = 0; /* of entry k and this one; NaN comes last */");
  for (std::size_t k = 0; k < keys; ++k) {
    const auto type = c_type(q.in_types[k].dtype);
    t.open("if (order == 0)");
    t.line("const {0} a = x{1}[at], b = x{1}[i];", type, k);
    t.line("order = a < b ? -1 : b < a ? 1 : (a != a) - (b != b);");
    t.close();
  }
  t.line("before += order < 0 || (order == 0 && k < own);");
  t.close();
  for (std::size_t k = 0; k < q.in.size(); ++k) t.line("y{0}[first + before * {1}] = x{0}[i];", k, step);
  launch(b, q, std::move(t));
}

constexpr CudaRow kRows[] = {
    {"trace_window", cuda_trace_window},
    {"argmax", arg_extreme<true>},
    {"argmin", arg_extreme<false>},
    {"cumsum", cumulative},
    {"cumprod", cumulative},
    {"cummax", cumulative},
    {"cummin", cumulative},
    {"cumlogsumexp", cumulative},
    {"scatter", scatter<false>},
    {"scatter_add", scatter<true>},
    {"dynamic_update_slice", dynamic_update_slice},
    {"pad", pad},
    {"sort", sort},
};

}  // namespace
}  // namespace row_kernels

const CudaRow* find_cuda_row(std::string_view operation) {
  for (const CudaRow& row : row_kernels::kRows)
    if (row.operation == operation) return &row;
  return nullptr;
}

}  // namespace etrace::emit
