// What a value is, without its data: element type and shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

// F16 and BF16 are storage types: only conversions and copies compute on them.
enum class Dtype : std::uint8_t { Bool, I32, I64, U32, F16, BF16, F32, F64 };

std::string_view name(Dtype);                            // "float32": the spelling of files and parameters
std::string_view short_name(Dtype);                      // "f32": the spelling of printed programs
std::optional<Dtype> dtype_from_name(std::string_view);  // accepts both spellings
std::size_t size_of(Dtype);                              // bytes of one element; Bool takes one byte
bool is_floating(Dtype);
bool is_integer(Dtype);       // I32, I64, U32; not Bool
Dtype promote(Dtype, Dtype);  // the smallest type that holds both kinds of value

using Dims = std::vector<std::int64_t>;

// A shape is a value without a heap; copy it like an int.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 16;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims)
      : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(
      std::span<const std::int64_t> dims);  // ValueError: rank > kMaxRank, a negative size, overflow
  Shape(const Dims& dims)
      : Shape(std::span<const std::int64_t>(dims)) {}  // NOLINT: shapes are lists of sizes

  std::size_t rank() const { return rank_; }
  bool is_scalar() const { return rank_ == 0; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), rank_}; }
  Dims to_dims() const { return {dims().begin(), dims().end()}; }
  std::int64_t operator[](std::size_t axis) const { return dims_[axis]; }
  std::int64_t back() const { return dims_[rank_ - 1U]; }
  auto begin() const { return dims().begin(); }
  auto end() const { return dims().end(); }
  std::int64_t size() const;  // number of elements; 1 for a scalar

  Shape with_front(std::int64_t n) const;              // {n, *this...}
  Shape without(std::size_t axis) const;               // one axis removed
  Shape with(std::size_t axis, std::int64_t n) const;  // one axis resized

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::uint8_t rank_ = 0;
};

struct Aval {
  Dtype dtype = Dtype::F32;
  Shape shape;
  std::size_t bytes() const { return static_cast<std::size_t>(shape.size()) * size_of(dtype); }
  bool operator==(const Aval&) const = default;
};
using Avals = std::vector<Aval>;

std::string to_string(const Shape&);  // "[3,4]", "[]"
std::string to_string(const Aval&);   // "f32[3,4]": one spelling everywhere

// Row-major strides in elements.
Dims strides_of(const Shape&);

// Shape of an elementwise operation: equal shapes, scalars, and size-1 axes of equal rank. Empty if they
// disagree.
std::optional<Shape> broadcast_shapes(const Shape&, const Shape&);

// NumPy's rule: shapes are aligned at their last axes. Empty if they disagree.
std::optional<Shape> numpy_broadcast_shapes(const Shape&, const Shape&);

}  // namespace etrace
#pragma GCC visibility pop
