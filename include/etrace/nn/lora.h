// y = (1/R)·x·A·B (+ base(x))    A [in, R] = lora_a, B [R, out] = lora_b
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct LoRAOptions {
  Initializer factor_init = init::lecun_normal();  // of both factors
  Unit unit = {};                                  // of A·B
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// A weight of low rank, alone or beside another layer. One parameter `weight` with the leaves lora_a and
// lora_b. (The operator beneath, lora_matmul, calls the factor at the input B and the other A.)
class LoRA : public WeightLayer {
 public:
  using Options = LoRAOptions;
  LoRA(std::int64_t in_size, std::int64_t rank, std::int64_t out_size, const LoRAOptions& = {});
  Array update(const Array& x) override;

  // The layer whose result is added: made here, at the path base_module.
  template <std::derived_from<Module> M, class... Args>
  M& base(Args&&... args) {
    M& made = child<M>("base_module", std::forward<Args>(args)...);
    base_ = &made;
    return made;
  }

  ParamState& weight;
  const std::int64_t in_size, rank, out_size;

 private:
  Module* base_ = nullptr;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
