// Element types and shapes.
#include "etrace/aval.h"

#include <algorithm>
#include <limits>

#include "etrace/error.h"

namespace etrace {

namespace {
struct DtypeInfo {
  std::string_view name, short_name;
  std::size_t size;
};
constexpr std::array<DtypeInfo, 8> kDtypes{{{"bool", "bool", 1},
                                            {"int32", "i32", 4},
                                            {"int64", "i64", 8},
                                            {"uint32", "u32", 4},
                                            {"float16", "f16", 2},
                                            {"bfloat16", "bf16", 2},
                                            {"float32", "f32", 4},
                                            {"float64", "f64", 8}}};
const DtypeInfo& info(Dtype t) { return kDtypes[static_cast<std::size_t>(t)]; }
}  // namespace

std::string_view name(Dtype t) { return info(t).name; }
std::string_view short_name(Dtype t) { return info(t).short_name; }
std::size_t size_of(Dtype t) { return info(t).size; }
bool is_floating(Dtype t) { return t >= Dtype::F16; }
bool is_integer(Dtype t) { return t == Dtype::I32 || t == Dtype::I64 || t == Dtype::U32; }

std::optional<Dtype> dtype_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kDtypes.size(); ++i)
    if (text == kDtypes[i].name || text == kDtypes[i].short_name) return static_cast<Dtype>(i);
  return std::nullopt;
}

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // the enumeration is ordered: bool, integers, floats
  if (a == Dtype::F16 && b == Dtype::BF16) return Dtype::F32;
  if (is_integer(a) && is_integer(b) && a != Dtype::Bool) return Dtype::I64;  // i32 and u32 meet in i64
  return b;
}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank)
    throw ValueError("shape", "rank " + std::to_string(dims.size()) + " is more than the supported " +
                                  std::to_string(kMaxRank) + " axes; merge axes with reshape");
  std::int64_t size = 1;
  for (const std::int64_t n : dims) {
    if (n < 0)
      throw ValueError("shape", "an axis of size " + std::to_string(n) + "; sizes must not be negative");
    // Elements times the widest element must fit the address space even if some other axis is empty.
    if (n > 0 && size > std::numeric_limits<std::int64_t>::max() / 16 / n)
      throw ValueError("shape", "the number of elements does not fit into memory");
    if (n > 0) size *= n;
    dims_[rank_++] = n;
  }
}

std::int64_t Shape::size() const {
  std::int64_t n = 1;
  for (const std::int64_t d : dims()) n *= d;
  return n;
}

Shape Shape::with_front(std::int64_t n) const {
  Dims out{n};
  out.insert(out.end(), begin(), end());
  return {out};
}

Shape Shape::without(std::size_t axis) const {
  Dims out = to_dims();
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  return {out};
}

Shape Shape::with(std::size_t axis, std::int64_t n) const {
  Shape out = *this;
  out.dims_[axis] = n;
  return out;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string to_string(const Aval& aval) {
  return std::string(short_name(aval.dtype)) + to_string(aval.shape);
}

Dims strides_of(const Shape& shape) {
  Dims strides(shape.rank());
  std::int64_t step = 1;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

static std::optional<Dims> merge(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  Dims out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return std::nullopt;
    out[i] = a[i] == 1 ? b[i] : a[i];
  }
  return out;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  if (a == b || b.is_scalar()) return a;
  if (a.is_scalar()) return b;
  if (a.rank() != b.rank()) return std::nullopt;
  const auto merged = merge(a.dims(), b.dims());
  return merged ? std::optional<Shape>(*merged) : std::nullopt;
}

std::optional<Shape> numpy_broadcast_shapes(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  auto padded = [rank](const Shape& s) {
    Dims out(rank - s.rank(), 1);
    out.insert(out.end(), s.begin(), s.end());
    return out;
  };
  const auto merged = merge(padded(a), padded(b));
  return merged ? std::optional<Shape>(*merged) : std::nullopt;
}

}  // namespace etrace
