// What the operations on shapes, indices and axes share: checks with good errors, axis arithmetic, walks over
// strided boxes, the strided copy, and random operands for samples. Private to ops/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "etrace/array.h"
#include "etrace/emission.h"
#include "etrace/error.h"
#include "etrace/primitive.h"
#include "kernels/context.h"

namespace etrace::structure {

using Sample = PrimitiveSpec::Sample;
using Samples = std::vector<Sample>;

constexpr std::size_t to_index(std::int64_t i) { return static_cast<std::size_t>(i); }
constexpr std::int64_t to_dim(std::size_t i) { return static_cast<std::int64_t>(i); }

// Errors ----------------------------------------------------------------------------------------------------
[[noreturn]] void refuse(std::string_view op, const std::string& message);       // ValueError
[[noreturn]] void refuse_type(std::string_view op, const std::string& message);  // TypeError
std::string show(std::span<const std::int64_t>);                                 // "[1, -2]"
void expect_operands(std::string_view op, std::span<const Aval> in, std::size_t count);
// TypeError unless the kernels compute on this element type (F16 and BF16 are for storage).
void expect_number(std::string_view op, Dtype, bool allow_bool = false);

// Axes ------------------------------------------------------------------------------------------------------
std::int64_t normalize_axis(std::string_view op, std::int64_t axis,
                            std::size_t rank);                                 // negative from the end
Dims normalize_axes(std::string_view op, const Dims& axes, std::size_t rank);  // distinct, in the order given
void check_axes(std::string_view op, std::string_view what, std::span<const std::int64_t> axes,
                std::size_t rank);  // as a primitive wants them: in range, distinct
Dims axis_range(std::int64_t first, std::int64_t count);
Dims other_axes(std::size_t rank, std::span<const std::int64_t> axes);  // ascending
Dims shifted(Dims axes, std::int64_t by = 1);                           // as seen behind a new leading axis
Dims with_front(std::int64_t first, Dims rest);
Dims joined(Dims a, const Dims& b);
Dims inverse_permutation(std::span<const std::int64_t>);
bool contains(std::span<const std::int64_t>, std::int64_t);
Dims pick(std::span<const std::int64_t> values, std::span<const std::int64_t> axes);
// A parameter that is a list of integer lists, each of the given width.
std::vector<Dims> int_table(std::string_view op, const Params&, std::string_view key, std::size_t width);
Attr to_attr(const std::vector<Dims>&);

// Batching --------------------------------------------------------------------------------------------------
Array with_batch_axis(const Array& x, bool batched, std::int64_t n);
// The bare primitive, except that an array of equal elements stays symbolic.
Array move_data(const Primitive&, const Array& x, const Params& params);

// Kernels ---------------------------------------------------------------------------------------------------
// All positions of a box in row-major order, with their offsets in N strided views. Axes are merged where
// that changes nothing, so that the innermost loop is as long as it can be.
template <std::size_t N>
class Box {
 public:
  Box() = default;
  Box(std::span<const std::int64_t> extents, std::array<Dims, N> strides) {
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (extents[i] == 0) empty_ = true;
      if (extents[i] == 1) continue;
      bool merge = rank_ > 0;
      for (std::size_t v = 0; v < N && merge; ++v)
        merge = axes_[rank_ - 1].stride[v] == strides[v][i] * extents[i];
      if (!merge) axes_[rank_++].extent = 1;
      Axis& axis = axes_[rank_ - 1];
      axis.extent *= extents[i];
      for (std::size_t v = 0; v < N; ++v) axis.stride[v] = strides[v][i];
    }
  }

  struct Axis {
    std::int64_t extent = 1;
    std::array<std::int64_t, N> stride{};
  };
  std::size_t rank() const { return rank_; }
  bool empty() const { return empty_; }
  const Axis& axis(std::size_t i) const { return axes_[i]; }
  std::int64_t count() const {
    std::int64_t n = empty_ ? 0 : 1;
    for (std::size_t i = 0; i < rank_; ++i) n *= axes_[i].extent;
    return n;
  }
  // Takes an axis out; a scalar box gives an axis of extent 1 (and stride 0).
  Axis pop(std::size_t i) {
    const Axis out = axes_[i];
    for (; i + 1 < rank_; ++i) axes_[i] = axes_[i + 1];
    axes_[--rank_] = Axis{};
    return out;
  }
  Axis pop_back() { return rank_ == 0 ? Axis{} : pop(rank_ - 1); }

  template <class F>  // f(offsets)
  void for_each(F&& f) const {
    for_range(0, rank_ == 0 ? 1 : axes_[0].extent, f);
  }
  template <class F>  // the same for positions [first, last) of the first axis
  void for_range(std::int64_t first, std::int64_t last, F&& f) const {
    if (empty_ || first >= last) return;
    std::array<std::int64_t, N> offset{};
    std::array<std::int64_t, Shape::kMaxRank> position{};
    position[0] = first;
    for (std::size_t v = 0; v < N; ++v) offset[v] = axes_[0].stride[v] * first;
    for (;;) {
      f(offset);
      std::size_t i = rank_;
      for (;;) {
        if (i == 0) return;
        const Axis& axis = axes_[--i];
        for (std::size_t v = 0; v < N; ++v) offset[v] += axis.stride[v];
        if (++position[i] < (i == 0 ? last : axis.extent)) break;
        if (i == 0) return;
        for (std::size_t v = 0; v < N; ++v) offset[v] -= axis.stride[v] * axis.extent;
        position[i] = 0;
      }
    }
  }

 private:
  std::array<Axis, Shape::kMaxRank> axes_{};
  std::size_t rank_ = 0;
  bool empty_ = false;
};

// N lines of words become one: to[N·i + k] = lines[k][i]. In one pass, which the compiler turns into
// shuffles.
template <int N, class Word>
void interleave_words(Word* __restrict to, const std::array<const Word*, N>& lines, std::int64_t n) {
  const Word *a = lines[0], *b = lines[1], *c = lines[N > 2 ? 2 : 0], *d = lines[N > 3 ? 3 : 0];
  for (std::int64_t i = 0; i < n; ++i) {
    to[N * i] = a[i];
    to[N * i + 1] = b[i];
    if constexpr (N > 2) to[N * i + 2] = c[i];
    if constexpr (N > 3) to[N * i + 3] = d[i];
  }
}

// Every place, followed along one more axis.
inline std::vector<std::int64_t> spread(const std::vector<std::int64_t>& places, std::int64_t size,
                                        std::int64_t step) {
  std::vector<std::int64_t> out;
  for (const std::int64_t place : places)
    for (std::int64_t i = 0; i < size; ++i) out.push_back(place + i * step);
  return out;
}

// dst[Σ i·dst_stride] = src[Σ i·src_stride] for all i in a box; elements of 1, 2, 4 or 8 bytes. Strides may
// be 0 or negative in the source; the pointers are those of the position 0.
class StridedCopy {
 public:
  StridedCopy() = default;
  StridedCopy(std::span<const std::int64_t> extents, const Dims& dst_strides, const Dims& src_strides,
              std::size_t element_bytes, const etp_context&);
  void operator()(const void* src, void* dst) const { (*this)(src, 0, dst, 0); }
  // The same with offsets in elements.
  void operator()(const void* src, std::int64_t src_offset, void* dst, std::int64_t dst_offset) const;

 private:
  using Run = void (*)(const StridedCopy&, const void*, void*);
  static StridedCopy serial(std::span<const std::int64_t> extents, const Dims& dst_strides,
                            const Dims& src_strides, std::size_t element_bytes);
  struct Form;  // how the innermost loops run
  template <class Word>
  static Run choose(StridedCopy&);
  static Run run_of(StridedCopy&);

  Box<2> outer_;
  // The innermost axis of the result, and where two axes are walked together the other one: a transposition.
  Box<2>::Axis row_, inner_;
  std::size_t bytes_ = 1;
  Run run_ = nullptr;
  // What each thread copies, if there are several: this axis is cut.
  Box<2>::Axis cut_;
  std::vector<StridedCopy> parts_;
  etp_context context_ = {};
};
// The whole of one contiguous operand copied into the result under permuted axes.
StridedCopy permuting_copy(const Shape& from, std::span<const std::int64_t> permutation,
                           std::size_t element_bytes, const etp_context&);
void fill_elements(void* dst, std::int64_t count, const void* element, std::size_t element_bytes);
Kernel copy_kernel(std::size_t bytes);  // result 0 = operand 0, byte by byte

// Emitted code: every element of the result is the element `at` of operand 0.
Emission whole_view(const EmitRequest&, const IndexForm& at);

// f(std::type_identity<T>{}) for the element types that kernels compute on; Bool is a byte, 0 or 1.
template <class F>
decltype(auto) visit_number(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::Bool:
      return f(std::type_identity<std::uint8_t>{});
    case Dtype::I32:
      return f(std::type_identity<std::int32_t>{});
    case Dtype::I64:
      return f(std::type_identity<std::int64_t>{});
    case Dtype::U32:
      return f(std::type_identity<std::uint32_t>{});
    case Dtype::F32:
      return f(std::type_identity<float>{});
    default:
      ETRACE_CHECK(dtype == Dtype::F64);
      return f(std::type_identity<double>{});
  }
}

template <class F>
decltype(auto) visit_integer(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::I32:
      return f(std::type_identity<std::int32_t>{});
    case Dtype::U32:
      return f(std::type_identity<std::uint32_t>{});
    default:
      ETRACE_CHECK(dtype == Dtype::I64);
      return f(std::type_identity<std::int64_t>{});
  }
}
// Signed sums and products wrap around, as unsigned ones do.
template <class T>
using Wrapping =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
// What sums and products of T are formed in: rounding happens once, at the end.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, float>, double, Wrapping<T>>;
template <class T>
constexpr bool is_nan(T v) {
  if constexpr (std::is_floating_point_v<T>)
    return v != v;
  else
    return false;
}

// A reader of one index value of an integer type.
using ReadIndex = std::int64_t (*)(const void* data, std::int64_t i);
ReadIndex index_reader(Dtype);

// Samples ---------------------------------------------------------------------------------------------------
// Random operands, the same for the same seed.
class Source {
 public:
  explicit Source(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x2545F4914F6CDD1DULL) {}
  std::int64_t integer(std::int64_t low, std::int64_t high);  // both ends included
  double uniform(double low, double high);
  Array floats(const Shape&, Dtype = Dtype::F64);    // in ±2
  Array distinct(const Shape&, Dtype = Dtype::F64);  // no two closer than 0.1: away from ties
  Array ints(const Shape&, std::int64_t low, std::int64_t high, Dtype = Dtype::I32);
  Array bools(const Shape&);

 private:
  std::uint64_t next();
  Array build(const Shape&, Dtype, const std::function<Scalar(std::int64_t)>& element);
  std::uint64_t state_;
};

}  // namespace etrace::structure
