// A product of few rows where most of A is zero, as with the spikes of one sample:
//   C[m, :] (+)= Σ_k A[m,k]·B[k, :] over the k at which A is not zero, in ascending order
// These are the bits of the dense product, if B is finite. To look at all of B would cost as much as the
// product, so whoever calls the operator has looked, once for many calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/etp_abi.h"
#include "kernels/etp_descriptors.h"

#pragma GCC visibility push(default)
namespace etrace {

class FewRows {
 public:
  static bool fits(const etp_matrix_product&);
  explicit FewRows(const etp_matrix_product& p) : p_(p) {}  // that fits, and outlives this

  std::size_t scratch_bytes() const;
  bool is_finite(const void* b) const;
  bool is_sparse(const void* a, void* scratch) const;  // at most a third of A is set
  // False, with nothing written, if A is not sparse.
  bool operator()(const void* a, const void* b, void* c, void* scratch) const;

 private:
  const etp_matrix_product& p_;
};

}  // namespace etrace
#pragma GCC visibility pop
