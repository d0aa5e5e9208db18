// The matrix product beneath dot_general and the convolution (etp_matrix_product): each element of C is one
// chain over k in ascending order, so no result depends on tiles or threads. Where most of A is zero, as with
// spikes, only the other terms are added; that changes no bit (event_product.h, few_rows.h).
#pragma once

#include "kernels/kernels.h"

namespace etrace {

inline void multiply(const etp_matrix_product& product, const etp_context& context, const void* a,
                     const void* b, void* c, void* scratch) {
  const void* const in[] = {a, b};
  run_matrix_product(&product, &context, in, &c, scratch);
}

}  // namespace etrace
