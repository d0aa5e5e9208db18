// Products.
#pragma once

#include <string_view>

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

// params: dimension_numbers [[lhs_contract, rhs_contract], [lhs_batch, rhs_batch]], preferred_element_type,
// precision
extern const Primitive dot_general_p;
// params: window_strides, padding [[low, high]…], lhs_dilation, rhs_dilation, dimension_numbers {lhs_spec,
// rhs_spec, out_spec} (JAX's index triples: batch, feature, spatial…; kernel: out, in, spatial…),
// feature_group_count, batch_group_count, preferred_element_type
extern const Primitive conv_general_dilated_p;

struct DotDims {
  Dims lhs_contract, rhs_contract, lhs_batch, rhs_batch;
};
Array dot_general(const Array& a, const Array& b, const DotDims&);
Array matmul_plain(const Array& a, const Array& b);  // NumPy's matmul, rank 1 and 2 and batches
Array dot(const Array& a, const Array& b);           // last axis of a with the first of b
Array outer(const Array& a, const Array& b);
Array einsum_plain(std::string_view equation, ArraySpan operands);  // explicit arrow or NumPy's implicit rule

struct ConvOptions {
  Dims strides;                                                // one per spatial axis; empty: 1
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;  // one per spatial axis; empty: 0
  Dims lhs_dilation, rhs_dilation;                             // empty: 1
  Dims lhs_spec, rhs_spec, out_spec;  // empty: batch, feature, spatial… / out, in, spatial…
  std::int64_t feature_group_count = 1, batch_group_count = 1;
};
Array conv_general_dilated(const Array& x, const Array& kernel, const ConvOptions&);
// Padding of JAX's "SAME" for each spatial axis.
std::vector<std::pair<std::int64_t, std::int64_t>> same_padding(const Dims& in, const Dims& kernel,
                                                                const Dims& strides,
                                                                const Dims& rhs_dilation);

}  // namespace etrace
#pragma GCC visibility pop
