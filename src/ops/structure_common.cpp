// Shared parts of the structural operations; see the header.
#include "ops/structure_common.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "etrace/ops/shape.h"

namespace etrace::structure {

// Errors ----------------------------------------------------------------------------------------------------
void refuse(std::string_view op, const std::string& message) { throw ValueError(std::string(op), message); }
void refuse_type(std::string_view op, const std::string& message) {
  throw TypeError(std::string(op), message);
}

std::string show(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

void expect_operands(std::string_view op, std::span<const Aval> in, std::size_t count) {
  if (in.size() != count)
    refuse(op, "takes " + std::to_string(count) + " operands, but got " + std::to_string(in.size()));
}

void expect_number(std::string_view op, Dtype dtype, bool allow_bool) {
  if (dtype == Dtype::F16 || dtype == Dtype::BF16)
    refuse_type(op, "does not compute on " + std::string(name(dtype)) +
                        ", which is for storage; convert the operand to float32 first");
  if (dtype == Dtype::Bool && !allow_bool)
    refuse_type(op, "does not compute on bool; convert the operand to int32 or a float first");
}

// Axes ------------------------------------------------------------------------------------------------------
std::int64_t normalize_axis(std::string_view op, std::int64_t axis, std::size_t rank) {
  const std::int64_t n = to_dim(rank);
  if (axis < -n || axis >= n)
    refuse(op, "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank) +
                   (rank == 0 ? "; a scalar has no axes"
                              : "; use " + std::to_string(-n) + " … " + std::to_string(n - 1)));
  return axis < 0 ? axis + n : axis;
}

Dims normalize_axes(std::string_view op, const Dims& axes, std::size_t rank) {
  Dims out;
  for (const std::int64_t axis : axes) {
    out.push_back(normalize_axis(op, axis, rank));
    if (std::count(out.begin(), out.end(), out.back()) > 1)
      refuse(op, "axis " + std::to_string(axis) + " is named twice in " + show(axes));
  }
  return out;
}

void check_axes(std::string_view op, std::string_view what, std::span<const std::int64_t> axes,
                std::size_t rank) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= to_dim(rank))
      refuse(op, std::string(what) + " " + show(axes) + " names axis " + std::to_string(axes[i]) +
                     ", but there are " + std::to_string(rank) + " axes");
    if (contains(axes.first(i), axes[i]))
      refuse(op, std::string(what) + " " + show(axes) + " names axis " + std::to_string(axes[i]) + " twice");
  }
}

Dims axis_range(std::int64_t first, std::int64_t count) {
  Dims out(to_index(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

bool contains(std::span<const std::int64_t> values, std::int64_t v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

Dims other_axes(std::size_t rank, std::span<const std::int64_t> axes) {
  Dims out;
  for (std::int64_t i = 0; i < to_dim(rank); ++i)
    if (!contains(axes, i)) out.push_back(i);
  return out;
}

Dims shifted(Dims axes, std::int64_t by) {
  for (std::int64_t& a : axes) a += by;
  return axes;
}

Dims with_front(std::int64_t first, Dims rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

Dims joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Dims inverse_permutation(std::span<const std::int64_t> permutation) {
  Dims out(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) out[to_index(permutation[i])] = to_dim(i);
  return out;
}

Dims pick(std::span<const std::int64_t> values, std::span<const std::int64_t> axes) {
  Dims out;
  for (const std::int64_t a : axes) out.push_back(values[to_index(a)]);
  return out;
}

std::vector<Dims> int_table(std::string_view op, const Params& params, std::string_view key,
                            std::size_t width) {
  std::vector<Dims> rows;
  const Attr* attr = params.find(key);
  const Attr::List* items = attr == nullptr ? nullptr : attr->list_items();
  const bool no_rows = attr != nullptr && attr->ints() != nullptr && attr->ints()->empty();
  bool fits = items != nullptr || no_rows;
  if (items != nullptr)
    for (const Attr& item : *items) {
      const Dims* row = item.ints();
      if (row == nullptr || row->size() != width)
        fits = false;
      else
        rows.push_back(*row);
    }
  if (!fits)
    throw CompilationError(std::string(op), "parameter '" + std::string(key) + "' must be a list with " +
                                                std::to_string(width) + " integers per axis");
  return rows;
}

Attr to_attr(const std::vector<Dims>& rows) { return Attr::list(Attr::List(rows.begin(), rows.end())); }

// Batching --------------------------------------------------------------------------------------------------
Array with_batch_axis(const Array& x, bool batched, std::int64_t n) {
  if (batched) return x;
  return broadcast_in_dim(x, x.shape().with_front(n), axis_range(1, to_dim(x.rank())));
}

Array move_data(const Primitive& prim, const Array& x, const Params& params) {
  const std::optional<Scalar> value = x.splat();
  if (!value) return bind1(prim, {x}, params);
  const Aval type = abstract_eval(prim, params, {&x.aval(), 1})[0];
  return full(type.shape, *value, type.dtype);
}

// Kernels ---------------------------------------------------------------------------------------------------
namespace {
constexpr std::int64_t kTile = 32;  // two tiles of doubles fit the first-level cache
}

StridedCopy::StridedCopy(std::span<const std::int64_t> extents, const Dims& dst_strides,
                         const Dims& src_strides, std::size_t element_bytes)
    : outer_(extents, {dst_strides, src_strides}), bytes_(element_bytes) {
  inner_ = outer_.pop_back();
  // A transposition reads one axis and writes another contiguously: take both into the innermost loops, in
  // tiles.
  if (inner_.stride[1] != 1 && inner_.stride[1] != 0 && inner_.extent >= 4)
    for (std::size_t i = 0; i < outer_.rank(); ++i)
      if (outer_.axis(i).stride[1] == 1 && outer_.axis(i).extent >= 4) {
        row_ = outer_.pop(i);
        break;
      }
  switch (element_bytes) {
    case 1:
      run_ = run<std::uint8_t>;
      break;
    case 2:
      run_ = run<std::uint16_t>;
      break;
    case 4:
      run_ = run<std::uint32_t>;
      break;
    default:
      run_ = run<std::uint64_t>;
      break;
  }
}

template <class Word>
void StridedCopy::run(const StridedCopy& self, const void* from, void* to) {
  const auto* src = static_cast<const Word*>(from);
  auto* dst = static_cast<Word*>(to);
  const Box<2>::Axis row = self.row_, inner = self.inner_;
  const std::int64_t dst_step = inner.stride[0], src_step = inner.stride[1];
  if (row.extent == 1 && ((dst_step == 1 && src_step == 1) || inner.extent == 1)) {
    const std::size_t bytes = to_index(inner.extent) * sizeof(Word);
    if (inner.extent == 1)
      self.outer_.for_each([&](const auto& at) { dst[at[0]] = src[at[1]]; });
    else
      self.outer_.for_each([&](const auto& at) { std::memcpy(dst + at[0], src + at[1], bytes); });
    return;
  }
  self.outer_.for_each([&](const auto& at) {
    for (std::int64_t r0 = 0; r0 < row.extent; r0 += kTile) {
      const std::int64_t r1 = std::min(row.extent, r0 + kTile);
      const std::int64_t width = row.extent == 1 ? inner.extent : kTile;
      for (std::int64_t c0 = 0; c0 < inner.extent; c0 += width) {
        const std::int64_t n = std::min(width, inner.extent - c0);
        for (std::int64_t r = r0; r < r1; ++r) {
          Word* __restrict d = dst + at[0] + r * row.stride[0] + c0 * dst_step;
          const Word* __restrict s = src + at[1] + r * row.stride[1] + c0 * src_step;
          if (src_step == 0 && dst_step == 1)
            std::fill_n(d, n, *s);
          else
            for (std::int64_t c = 0; c < n; ++c) d[c * dst_step] = s[c * src_step];
        }
      }
    }
  });
}

StridedCopy permuting_copy(const Shape& from, std::span<const std::int64_t> permutation,
                           std::size_t element_bytes) {
  const Dims extents = pick(from.dims(), permutation);
  return {extents, strides_of(extents), pick(strides_of(from), permutation), element_bytes};
}

void fill_elements(void* dst, std::int64_t count, const void* element, std::size_t element_bytes) {
  auto fill = [&]<class Word>(std::type_identity<Word>) {
    Word value;
    std::memcpy(&value, element, sizeof value);
    std::fill_n(static_cast<Word*>(dst), count, value);
  };
  switch (element_bytes) {
    case 1:
      return fill(std::type_identity<std::uint8_t>{});
    case 2:
      return fill(std::type_identity<std::uint16_t>{});
    case 4:
      return fill(std::type_identity<std::uint32_t>{});
    default:
      return fill(std::type_identity<std::uint64_t>{});
  }
}

Kernel copy_kernel(std::size_t bytes) {
  Kernel kernel;
  kernel.in_place = {{0, 0}};
  kernel.view = true;
  kernel.run = [bytes](const KernelArgs& k) {
    if (k.out[0] != k.in[0] && bytes > 0) std::memcpy(k.out[0], k.in[0], bytes);
  };
  return kernel;
}

ReadIndex index_reader(Dtype dtype) {
  return visit_integer(dtype, []<class T>(std::type_identity<T>) -> ReadIndex {
    return [](const void* p, std::int64_t i) -> std::int64_t { return static_cast<const T*>(p)[i]; };
  });
}

Emission whole_view(const EmitRequest& q, const IndexForm& at) {
  return ViewCode{{{0, Dims(q.y().shape.rank(), 0), q.y().shape.to_dims(), at}}};
}

// Samples ---------------------------------------------------------------------------------------------------
std::uint64_t Source::next() {  // splitmix64
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::int64_t Source::integer(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

double Source::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53);
}

Array Source::build(const Shape& shape, Dtype dtype, const std::function<Scalar(std::int64_t)>& element) {
  Tensor out = Tensor::uninitialized({dtype, shape});
  const std::size_t bytes = size_of(dtype);
  for (std::int64_t i = 0; i < shape.size(); ++i)
    std::memcpy(out.writable() + to_index(i) * bytes, Tensor::full({dtype, {}}, element(i)).bytes(), bytes);
  return out;
}

Array Source::floats(const Shape& shape, Dtype dtype) {
  return build(shape, dtype, [&](std::int64_t) { return uniform(-2.0, 2.0); });
}

Array Source::distinct(const Shape& shape, Dtype dtype) {
  Dims order = axis_range(0, shape.size());
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[to_index(integer(0, to_dim(i) - 1))]);
  const double centre = 0.1 * static_cast<double>(shape.size());
  return build(shape, dtype, [&](std::int64_t i) {
    return 0.2 * static_cast<double>(order[to_index(i)]) - centre + uniform(0.0, 0.1);
  });
}

Array Source::ints(const Shape& shape, std::int64_t low, std::int64_t high, Dtype dtype) {
  return build(shape, dtype, [&](std::int64_t) { return integer(low, high); });
}

Array Source::bools(const Shape& shape) {
  return build(shape, Dtype::Bool, [&](std::int64_t) { return integer(0, 1) == 1; });
}

}  // namespace etrace::structure
