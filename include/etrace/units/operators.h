// The eligibility-trace operators on quantities: etrace/etp.h with units.
//
// The primitive sees mantissas only, and so do the hooks (weight_fn …), Jacobians, traces and gradients. The
// result has unit(x)·unit(weight); a bias must have that dimension (UnitError) and is converted to it first.
#pragma once

#include <string_view>

#include "etrace/etp.h"
#include "etrace/units/quantity.h"

#pragma GCC visibility push(default)
namespace etrace {

Quantity matmul(const Quantity& x, const Quantity& weight, const Quantity& bias = {},
                const MatmulOptions& = {});
Quantity grouped_matmul(const Quantity& x, const Quantity& weight, const Quantity& bias = {},
                        const MatmulOptions& = {});
Quantity einsum(std::string_view equation, const Quantity& x, const Quantity& weight,
                const WeightFn& weight_fn = {});
Quantity sparse_matmul(const Quantity& x, const Quantity& weight, const SparsePattern&,
                       const Quantity& bias = {}, const MatmulOptions& = {});
Quantity conv(const Quantity& x, const Quantity& kernel, const Quantity& bias = {},
              const EtpConvOptions& = {});
// unit(x)·unit(b)·unit(a)
Quantity lora_matmul(const Quantity& x, const Quantity& b, const Quantity& a, const Quantity& bias = {},
                     const LoraOptions& = {});
// The weight's unit.
Quantity element_wise(const Quantity& weight, const WeightFn& weight_fn = {});
Quantity embedding(const Array& indices, const Quantity& weight, const WeightFn& weight_fn = {});

}  // namespace etrace
#pragma GCC visibility pop
