// What the elementwise primitives share: typing, loops with broadcasting, batching, derivatives and samples.
//
// A row is written as, for example,
//   const Primitive sin_p{unary<sin_p, kFloating, [](auto x) { return std::sin(x); }>({.name = "sin", …})};
// and `unary` fills in what follows from the scalar function: typing, kernel, batching.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etrace/array.h"
#include "etrace/emission.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/primitive.h"
#include "kernels/context.h"

namespace etrace::elementwise {

// Typing ----------------------------------------------------------------------------------------------------
// Sets of element types that an operation computes on.
constexpr unsigned kBool = 1, kInteger = 2, kFloating = 4;
constexpr unsigned kNumber = kInteger | kFloating, kBits = kBool | kInteger,
                   kAny = kBool | kInteger | kFloating;

void require_arity(std::string_view op, std::span<const Aval> in, std::size_t arity);
void require_kind(std::string_view op, unsigned kinds, const Aval& aval);
// The shape that all operands broadcast to. ValueError if they do not.
Shape common_shape(std::string_view op, std::span<const Aval> in);
// Operands of one admitted element type and of shapes that broadcast.
Aval common_aval(std::string_view op, unsigned kinds, std::size_t arity, std::span<const Aval> in);

template <const Primitive& P, unsigned K, std::size_t N>
Avals same_type(const Params&, std::span<const Aval> in) {
  return {common_aval(P.name(), K, N, in)};
}
template <const Primitive& P, unsigned K, std::size_t N>
Avals to_bool(const Params&, std::span<const Aval> in) {
  return {{Dtype::Bool, common_aval(P.name(), K, N, in).shape}};
}

// Kernels ---------------------------------------------------------------------------------------------------
// y[i] = f(x0[i], x1[i], …) for i < n. y may be one of the operands.
using Row = void (*)(std::int64_t n, void* y, const void* const* x);

// The loops of one elementwise operation. Axes along which all operands behave alike are joined, so that
// equal shapes and scalar operands need one call of a row only.
class Loops {
 public:
  static constexpr std::size_t kMaxOperands = 4;
  // rows[mask]: the row in which operand i advances iff bit i is set; otherwise its first element serves all.
  Loops(const Aval& y, std::span<const Aval> x, std::span<const Row> rows, const etp_context&);
  void operator()(void* y, const void* const* x) const;
  Kernel kernel() &&;  // without in_place

 private:
  struct Axis {
    std::int64_t size;
    std::array<std::ptrdiff_t, kMaxOperands> step;  // bytes
  };
  void stretch(std::int64_t first, std::int64_t last, void* y, const void* const* x) const;
  void rows(std::int64_t first, std::int64_t last, void* y, const void* const* x) const;

  Row row_ = nullptr;
  std::int64_t inner_ = 1, rows_ = 1;
  std::array<std::ptrdiff_t, kMaxOperands> inner_step_{};
  std::vector<Axis> outer_;  // innermost first
  std::ptrdiff_t y_element_ = 0;
  std::size_t operands_ = 0;
  etp_context context_;
  int parts_ = 1;
  bool empty_ = false;
};
Kernel loop_kernel(const KernelRequest&, std::span<const Row> rows);
Kernel row_kernel(const KernelRequest&, Row row);  // one operand

template <class T, bool Advances>
struct Stream {
  explicit Stream(const void* p) : data(static_cast<const T*>(p)) {}
  T operator[](std::int64_t i) const { return data[i]; }
  const T* data;
};
template <class T>
struct Stream<T, false> {
  explicit Stream(const void* p) : value(*static_cast<const T*>(p)) {}
  T operator[](std::int64_t) const { return value; }
  T value;
};

template <auto F, unsigned Mask, class... T>
struct MapRow {
  using Result = std::remove_cv_t<decltype(F(T{}...))>;

  static void run(std::int64_t n, void* y, const void* const* x) {
    run(n, static_cast<Result*>(y), x, std::index_sequence_for<T...>());
  }

 private:
  template <std::size_t... I>
  static void run(std::int64_t n, Result* y, const void* const* x, std::index_sequence<I...>) {
    loop(n, y, Stream<T, ((Mask >> I) & 1U) != 0>(x[I])...);
  }
  template <class... S>
  static void loop(std::int64_t n, Result* y, const S... x) {
    // An operand in the result's place is read before it is written: no dependence between iterations.
#ifndef __clang__
#pragma GCC ivdep
#endif
    for (std::int64_t i = 0; i < n; ++i) y[i] = F(x[i]...);
  }
};

template <auto F, class... T, unsigned... Mask>
std::span<const Row> map_rows(std::integer_sequence<unsigned, Mask...>) {
  static constexpr std::array<Row, sizeof...(Mask)> kRows{&MapRow<F, Mask, T...>::run...};
  return kRows;
}
// The rows of F for every way in which operands advance.
template <auto F, class... T>
std::span<const Row> map_rows() {
  return map_rows<F, T...>(std::make_integer_sequence<unsigned, 1U << sizeof...(T)>());
}

// Calls visit.operator()<T>() with the C++ type of an element type among K.
template <unsigned K, class Visitor>
Kernel for_dtype(Dtype dtype, Visitor visit) {
  if constexpr ((K & kBool) != 0)
    if (dtype == Dtype::Bool) return visit.template operator()<bool>();
  if constexpr ((K & kInteger) != 0) {
    if (dtype == Dtype::I32) return visit.template operator()<std::int32_t>();
    if (dtype == Dtype::I64) return visit.template operator()<std::int64_t>();
    if (dtype == Dtype::U32) return visit.template operator()<std::uint32_t>();
  }
  if constexpr ((K & kFloating) != 0) {
    if (dtype == Dtype::F32) return visit.template operator()<float>();
    if (dtype == Dtype::F64) return visit.template operator()<double>();
  }
  internal_error("the typing rule admits this element type", __FILE__, __LINE__);
}

template <class T, std::size_t>
using Repeated = T;

template <unsigned K, auto F, std::size_t... I>
Kernel map_operands(const KernelRequest& r, std::index_sequence<I...>) {
  return for_dtype<K>(r.x(0).dtype,
                      [&]<class T>() { return loop_kernel(r, map_rows<F, Repeated<T, I>...>()); });
}
// The kernel of y = F(x0, …), N operands of one element type among K.
template <unsigned K, auto F, std::size_t N>
Kernel map_kernel(const KernelRequest& r) {
  return map_operands<K, F>(r, std::make_index_sequence<N>());
}

// Emitted code ----------------------------------------------------------------------------------------------
template <std::size_t N>
struct Text {
  char text[N];
  constexpr Text(const char (&t)[N]) { std::copy_n(t, N, text); }  // NOLINT: a literal is a text
};
// y = the expression, in the words of MapCode.
template <Text T, int Cost = 1>
Emission code(const EmitRequest&) {
  return MapCode{T.text, Cost};
}
// One for floats, one for integers.
template <Text Floats, Text Integers, int Cost = 1>
Emission number_code(const EmitRequest& r) {
  return MapCode{is_floating(r.x(0).dtype) ? Floats.text : Integers.text, Cost};
}

// Batching --------------------------------------------------------------------------------------------------
// Unmapped operands and mapped scalars get axes of size 1 where the others have more.
Arrays align_batched(ArraySpan x, const std::vector<bool>& batched);

template <const Primitive& P>
Arrays batch(const Params& params, ArraySpan x, const std::vector<bool>& batched, std::int64_t) {
  return bind_primitive(P, align_batched(x, batched), params);
}

// Derivatives -----------------------------------------------------------------------------------------------
// dy = F(x, y)·dx
template <auto F>
Arrays jvp_by(const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) {
  return {dx[0] * F(x[0], y[0])};
}
// The derivative is zero wherever it exists.
Arrays jvp_zero(const Params&, ArraySpan x, ArraySpan y, ArraySpan dx);
// f(dx) where dx is defined, else undefined.
template <class F>
Array partial(const Array& dx, F f) {
  return dx.defined() ? Array(f(dx)) : Array();
}
// The sum of partial tangents that are defined, brought to the result's shape.
Arrays tangent(const Array& y, std::initializer_list<Array> partials);

// Rows ------------------------------------------------------------------------------------------------------
template <const Primitive& P, unsigned K, auto F>
PrimitiveSpec unary(PrimitiveSpec row) {
  row.elementwise = true;
  row.abstract = same_type<P, K, 1>;
  row.kernel = map_kernel<K, F, 1>;
  row.batch = batch<P>;
  return row;
}
// y = f(x) by one scalar function per floating type.
template <const Primitive& P, auto F32, auto F64>
PrimitiveSpec float_unary(PrimitiveSpec row) {
  row.elementwise = true;
  row.ignored_params = {"accuracy"};
  row.abstract = same_type<P, kFloating, 1>;
  row.kernel = [](const KernelRequest& r) {
    return loop_kernel(r, r.x(0).dtype == Dtype::F32 ? map_rows<F32, float>() : map_rows<F64, double>());
  };
  row.batch = batch<P>;
  return row;
}
template <const Primitive& P, unsigned K, auto F>
PrimitiveSpec binary(PrimitiveSpec row) {
  row.elementwise = true;
  row.abstract = same_type<P, K, 2>;
  row.kernel = map_kernel<K, F, 2>;
  row.batch = batch<P>;
  return row;
}

// Samples ---------------------------------------------------------------------------------------------------
using Sample = PrimitiveSpec::Sample;

struct Range {
  double low, high;
};

// Operands that depend on the seed only.
class SampleSource {
 public:
  explicit SampleSource(std::uint64_t seed) : state_(seed) {}
  std::int64_t integer(std::int64_t low, std::int64_t high);  // both ends included
  // Floating values are of the form (4k + 1 + 2·lane)/256: operands of different lanes are never equal and no
  // value is an integer, so that kinks stay at a distance.
  Array values(const Aval&, Range, unsigned lane = 0);

 private:
  std::uint64_t next();
  std::uint64_t state_;
};

// Operands in all forms of broadcasting, of every element type among `kinds`; only f64 is for derivative
// tests.
std::vector<Sample> make_samples(std::uint64_t seed, unsigned kinds, std::span<const Range> ranges,
                                 const Params& params = {}, bool differentiable = true);

template <unsigned K, Range... R>
std::vector<Sample> samples(std::uint64_t seed) {
  return make_samples(seed, K, std::array{R...});
}
template <unsigned K, Range... R>
std::vector<Sample> flat_samples(std::uint64_t seed) {  // for operations without a derivative
  return make_samples(seed, K, std::array{R...}, {}, false);
}

}  // namespace etrace::elementwise
