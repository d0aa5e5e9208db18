// The matrix product beneath dot_general and the convolution: C = A·B, or C += A·B, for any element strides
// of A and B. Private; also used to draw orthogonal values (nn/).
#pragma once

#include <cstddef>
#include <cstdint>

#include "etrace/aval.h"

namespace etrace {

// Each element of C is one chain over k in ascending order, so no result depends on tiles or threads. Where
// most of A is zero, as with spikes, only the other terms are added; that changes no bit (event_product.h).
class MatrixProduct {
 public:
  struct Sizes {
    std::int64_t rows, columns, depth;
  };
  struct Strides {  // in elements: A[i,k] = a[i·a_row + k·a_depth], B[k,j] = b[k·b_depth + j·b_column]
    std::int64_t a_row, a_depth, b_depth, b_column, c_row;
  };
  // I32, I64, U32, F32 or F64; integers wrap around.
  MatrixProduct(Dtype, Sizes, Strides, bool accumulate = false);

  std::size_t scratch_bytes() const { return part_scratch_ * static_cast<std::size_t>(parts_); }
  void operator()(const void* a, const void* b, void* c, void* scratch) const;

 private:
  void run_part(std::int64_t first, std::int64_t last, const void* a, const void* b, void* c,
                void* scratch) const;
  template <class T, class Gemm>
  void multiply(std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, const T* a, const T* b,
                T* c, void* scratch, Gemm gemm) const;

  Dtype dtype_;
  Sizes sizes_;
  Strides strides_;
  bool accumulate_;
  // Threads take parts: stretches of rows, or of columns, of this length (the last one may be shorter).
  bool by_rows_ = true;
  std::int64_t parts_ = 1, part_length_ = 0;
  std::size_t part_scratch_ = 0, dense_scratch_ = 0;
  bool events_ = false;  // A is looked at, at every call
};

}  // namespace etrace
