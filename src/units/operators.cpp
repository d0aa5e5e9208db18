// The eligibility-trace operators on quantities: split, apply to mantissas, recombine.
#include "etrace/units/operators.h"

#include <fmt/format.h>

#include "units/describe.h"

namespace etrace {

namespace {

// Also a product without dimension keeps its scale until the bias is added: mV·(1/V) adds in steps of 10⁻³.
Array bias_in(std::string_view op, const Quantity& bias, const Unit& product) {
  if (!bias.defined()) return {};
  if (!bias.unit().same_dimension(product))
    throw UnitError(
        std::string(op),
        fmt::format("the bias is {}, but the product that it is added to is {}; give the bias the "
                    "unit of x times the unit of the weight",
                    described(bias.unit()), described(product)),
        OriginScope::current());
  return bias.to(product);
}

}  // namespace

Quantity matmul(const Quantity& x, const Quantity& weight, const Quantity& bias,
                const MatmulOptions& options) {
  const Unit unit = x.unit() * weight.unit();
  return {matmul(x.mantissa(), weight.mantissa(), bias_in("matmul", bias, unit), options), unit};
}

Quantity grouped_matmul(const Quantity& x, const Quantity& weight, const Quantity& bias,
                        const MatmulOptions& options) {
  const Unit unit = x.unit() * weight.unit();
  return {grouped_matmul(x.mantissa(), weight.mantissa(), bias_in("grouped_matmul", bias, unit), options),
          unit};
}

Quantity einsum(std::string_view equation, const Quantity& x, const Quantity& weight,
                const WeightFn& weight_fn) {
  return {einsum(equation, x.mantissa(), weight.mantissa(), weight_fn), x.unit() * weight.unit()};
}

Quantity sparse_matmul(const Quantity& x, const Quantity& weight, const SparsePattern& pattern,
                       const Quantity& bias, const MatmulOptions& options) {
  const Unit unit = x.unit() * weight.unit();
  return {
      sparse_matmul(x.mantissa(), weight.mantissa(), pattern, bias_in("sparse_matmul", bias, unit), options),
      unit};
}

Quantity conv(const Quantity& x, const Quantity& kernel, const Quantity& bias,
              const EtpConvOptions& options) {
  const Unit unit = x.unit() * kernel.unit();
  return {conv(x.mantissa(), kernel.mantissa(), bias_in("conv", bias, unit), options), unit};
}

Quantity lora_matmul(const Quantity& x, const Quantity& b, const Quantity& a, const Quantity& bias,
                     const LoraOptions& options) {
  const Unit unit = x.unit() * b.unit() * a.unit();
  return {lora_matmul(x.mantissa(), b.mantissa(), a.mantissa(), bias_in("lora_matmul", bias, unit), options),
          unit};
}

Quantity element_wise(const Quantity& weight, const WeightFn& weight_fn) {
  return {element_wise(weight.mantissa(), weight_fn), weight.unit()};
}

Quantity embedding(const Array& indices, const Quantity& weight, const WeightFn& weight_fn) {
  return {embedding(indices, weight.mantissa(), weight_fn), weight.unit()};
}

}  // namespace etrace
