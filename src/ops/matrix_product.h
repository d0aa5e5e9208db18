// The matrix product beneath dot_general and the convolution: C = A·B, or C += A·B, for any element strides
// of A and B. Private to ops/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "etrace/aval.h"

namespace etrace {

// Each element of C is one chain over k in ascending order, so no result depends on tiles or threads.
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

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  void operator()(const void* a, const void* b, void* c, void* scratch) const;

 private:
  Dtype dtype_;
  Sizes sizes_;
  Strides strides_;
  bool accumulate_;
  std::int64_t parts_ = 1;  // pieces that threads may take, of rows or of columns
  bool by_rows_ = true;
  std::size_t part_scratch_ = 0, scratch_bytes_ = 0;
};

}  // namespace etrace
