// Runs the blocked product of the runtime, in parts on several threads where that pays; integers by a plain
// loop.
#include "ops/matrix_product.h"

#include <algorithm>

#include "etrace/error.h"
#include "runtime/etp_gemm.h"

namespace etrace {

namespace {

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
  const int flags = (strides.a_depth != 1 ? ETP_GEMM_TA : 0) | (strides.b_column != 1 ? ETP_GEMM_TB : 0);
  if (dtype == Dtype::F32)
    scratch_bytes_ = etp_gemm_scratch_f32(sizes.rows, sizes.columns, sizes.depth, flags);
  if (dtype == Dtype::F64)
    scratch_bytes_ = etp_gemm_scratch_f64(sizes.rows, sizes.columns, sizes.depth, flags);
}

void MatrixProduct::operator()(const void* a, const void* b, void* c, void* scratch) const {
  const auto& [m, n, k] = sizes_;
  const auto& [a_row, a_depth, b_depth, b_column, c_row] = strides_;
  auto plain = [&]<class T>(T) {
    plain_product(sizes_, strides_, as<T>(a), as<T>(b), static_cast<T*>(c), accumulate_);
  };
  switch (dtype_) {
    case Dtype::F32:
      return etp_gemm_f32(m, n, k, as<float>(a), a_row, a_depth, as<float>(b), b_depth, b_column,
                          static_cast<float*>(c), c_row, accumulate_, scratch);
    case Dtype::F64:
      return etp_gemm_f64(m, n, k, as<double>(a), a_row, a_depth, as<double>(b), b_depth, b_column,
                          static_cast<double*>(c), c_row, accumulate_, scratch);
    case Dtype::I64:
      return plain(std::uint64_t{});
    default:
      ETRACE_CHECK(dtype_ == Dtype::I32 || dtype_ == Dtype::U32);
      return plain(std::uint32_t{});
  }
}

}  // namespace etrace
