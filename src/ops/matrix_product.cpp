// Runs the blocked product of the runtime, in parts on several threads where that pays; integers by a plain
// loop.
#include "ops/matrix_product.h"

#include <algorithm>

#include "etrace/error.h"
#include "ops/event_product.h"
#include "runtime/etp_gemm.h"
#include "runtime/thread_pool.h"

namespace etrace {

namespace {

// Multiplications that outweigh the hand-over to another thread: some microseconds of a product of one row,
// which waits for its matrix, as of one that does not.
constexpr double kPartWork = 1.2e5;
constexpr std::int64_t kRowUnit = 6, kColumnUnit = 64;  // whole tiles of the product beneath

template <class T>
void plain_product(const MatrixProduct::Sizes& s, const MatrixProduct::Strides& at, const T* a, const T* b,
                   T* c, bool accumulate) {
  for (std::int64_t i = 0; i < s.rows; ++i) {
    T* __restrict row = c + i * at.c_row;
    if (!accumulate) std::fill_n(row, s.columns, T(0));
    for (std::int64_t k = 0; k < s.depth; ++k) {
      const T factor = a[i * at.a_row + k * at.a_depth];
      const T* __restrict other = b + k * at.b_depth;
      if (at.b_column == 1)
        for (std::int64_t j = 0; j < s.columns; ++j) row[j] += factor * other[j];
      else
        for (std::int64_t j = 0; j < s.columns; ++j) row[j] += factor * other[j * at.b_column];
    }
  }
}

template <class T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}

}  // namespace

MatrixProduct::MatrixProduct(Dtype dtype, Sizes sizes, Strides strides, bool accumulate)
    : dtype_(dtype), sizes_(sizes), strides_(strides), accumulate_(accumulate) {
  const auto& [m, n, k] = sizes;
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  by_rows_ = m > n;
  std::int64_t& length = by_rows_ ? sizes.rows : sizes.columns;
  part_length_ = length;
  if (is_floating(dtype) && work >= 2 * kPartWork) {
    const auto threads = static_cast<double>(default_pool().size());
    const auto wanted = static_cast<std::int64_t>(std::min(threads, work / kPartWork));
    const std::int64_t unit = by_rows_ ? kRowUnit : kColumnUnit;
    part_length_ = ((length + wanted - 1) / wanted + unit - 1) / unit * unit;
    parts_ = (length + part_length_ - 1) / part_length_;
  }
  length = std::min(length, part_length_);
  const int flags = (strides.a_depth != 1 ? ETP_GEMM_TA : 0) | (strides.b_column != 1 ? ETP_GEMM_TB : 0);
  if (dtype == Dtype::F32) part_scratch_ = etp_gemm_scratch_f32(m, n, k, flags);
  if (dtype == Dtype::F64) part_scratch_ = etp_gemm_scratch_f64(m, n, k, flags);
  dense_scratch_ = part_scratch_ = (part_scratch_ + 63) / 64 * 64;
  // Of all rows and columns: what is decided must not depend on the parts.
  events_ =
      is_floating(dtype) &&
      (dtype == Dtype::F32 ? EventProduct<float>::fits(sizes_.rows, sizes_.columns, k, strides.b_column)
                           : EventProduct<double>::fits(sizes_.rows, sizes_.columns, k, strides.b_column));
  if (events_)
    part_scratch_ +=
        dtype == Dtype::F32 ? EventProduct<float>::scratch_bytes() : EventProduct<double>::scratch_bytes();
}

void MatrixProduct::operator()(const void* a, const void* b, void* c, void* scratch) const {
  const std::int64_t length = by_rows_ ? sizes_.rows : sizes_.columns;
  auto run = [&](int part) {
    const std::int64_t first = part * part_length_;
    run_part(first, std::min(length, first + part_length_), a, b, c,
             static_cast<std::byte*>(scratch) + static_cast<std::size_t>(part) * part_scratch_);
  };
  if (parts_ == 1)
    run(0);
  else
    default_pool().parallel(static_cast<int>(parts_), run);
}

// The part [m0, m1) × [n0, n1) of C.
template <class T, class Gemm>
void MatrixProduct::multiply(std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, const T* a,
                             const T* b, T* c, void* scratch, Gemm gemm) const {
  const Strides& s = strides_;
  const auto dense = [&](std::int64_t m, std::int64_t n, std::int64_t k, const T* from_a, const T* from_b,
                         T* to, bool accumulate) {
    gemm(m, n, k, from_a, s.a_row, s.a_depth, from_b, s.b_depth, s.b_column, to, s.c_row, accumulate ? 1 : 0,
         scratch);
  };
  b += n0 * s.b_column, c += n0;
  if (events_)
    EventProduct<T>::multiply({.rows = sizes_.rows,
                               .columns = n1 - n0,
                               .depth = sizes_.depth,
                               .a = {a, s.a_row, s.a_depth},
                               .b = b,
                               .b_row = s.b_depth,
                               .c = c,
                               .c_row = s.c_row,
                               .first = m0,
                               .last = m1,
                               .accumulate = accumulate_},
                              static_cast<std::byte*>(scratch) + dense_scratch_, dense);
  else
    dense(m1 - m0, n1 - n0, sizes_.depth, a + m0 * s.a_row, b, c + m0 * s.c_row, accumulate_);
}

void MatrixProduct::run_part(std::int64_t first, std::int64_t last, const void* a, const void* b, void* c,
                             void* scratch) const {
  const auto& [m, n, k] = sizes_;
  const std::int64_t m0 = by_rows_ ? first : 0, m1 = by_rows_ ? last : m;
  const std::int64_t n0 = by_rows_ ? 0 : first, n1 = by_rows_ ? n : last;
  auto plain = [&]<class T>(T) {
    plain_product(sizes_, strides_, as<T>(a), as<T>(b), static_cast<T*>(c), accumulate_);
  };
  switch (dtype_) {
    case Dtype::F32:
      return multiply(m0, m1, n0, n1, as<float>(a), as<float>(b), static_cast<float*>(c), scratch,
                      etp_gemm_f32);
    case Dtype::F64:
      return multiply(m0, m1, n0, n1, as<double>(a), as<double>(b), static_cast<double*>(c), scratch,
                      etp_gemm_f64);
    case Dtype::I64:
      return plain(std::uint64_t{});
    default:
      ETRACE_CHECK(dtype_ == Dtype::I32 || dtype_ == Dtype::U32);
      return plain(std::uint32_t{});
  }
}

}  // namespace etrace
