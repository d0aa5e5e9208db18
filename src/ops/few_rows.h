// A product of few rows where most of A is zero or the same again, as with the spikes of one sample:
//   C[m, :] (+)= Σ_k D[m,k]·B[k, :] over the k at which D is not zero, in ascending order, then + f_m·Σ_k
//   B[k, :]
// with A[m,k] = f_m + D[m,k] and f_m the value that most of a row have, or zero. Without an f these are the
// bits of the dense product, if B is finite; with one it is the same within rounding (decision 0020), and
// that is what the product is, for whoever multiplies: with_base() has the same bits as the sums that were
// kept. To look at all of B would cost as much as the product, so whoever calls the operator has looked, once
// for many calls.
#pragma once

#include <functional>

#include "ops/matrix_product.h"

#pragma GCC visibility push(default)
namespace etrace {

class FewRows {
 public:
  static bool fits(Dtype, const MatrixProduct::Sizes&, const MatrixProduct::Strides&);
  FewRows(Dtype, MatrixProduct::Sizes, MatrixProduct::Strides, bool accumulate = false);  // that fit

  std::size_t scratch_bytes() const;
  std::size_t sums_bytes() const;
  // sums[j] = Σ_k B[k,j]; false if B is not finite, or close to the largest number.
  bool sum_columns(const void* b, void* sums) const;
  bool is_sparse(const void* a, void* scratch) const;  // at most a third of A is left
  // False, with nothing written, if A is not sparse.
  bool operator()(const void* a, const void* b, const void* sums, void* c, void* scratch) const;

  // Columns [first, last) of the product, from a multiple of kPanel on, if A is sparse and has an f that is
  // not zero; else false, with nothing written. dense(first, last) multiplies columns in which B is not
  // finite.
  using Dense = std::function<void(std::int64_t first, std::int64_t last)>;
  bool with_base(const void* a, const void* b, void* c, std::int64_t first, std::int64_t last, void* scratch,
                 const Dense& dense) const;
  static constexpr std::int64_t kPanel = 64;

 private:
  Dtype dtype_;
  MatrixProduct::Sizes sizes_;
  MatrixProduct::Strides strides_;
  bool accumulate_;
};

}  // namespace etrace
#pragma GCC visibility pop
