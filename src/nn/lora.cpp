#include "etrace/nn/lora.h"

#include "etrace/etp.h"
#include "etrace/ops/elementwise.h"
#include "etrace/random.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

namespace {
std::string lora_text(std::int64_t in, std::int64_t rank, std::int64_t out) {
  return "a LoRA from " + std::to_string(in) + " to " + std::to_string(out) + " features with rank " +
         std::to_string(rank);
}
NamedArrays factors(std::int64_t in, std::int64_t rank, std::int64_t out, const LoRAOptions& o) {
  if (rank < 1) wrong_option(lora_text(in, rank, out), "the rank must be at least 1");
  const Array key = layer_key(o.seed);
  return {{"lora_a", o.factor_init(random::fold_in(key, 0), {in, rank}, o.dtype)},
          {"lora_b", o.factor_init(random::fold_in(key, 1), {rank, out}, o.dtype)}};
}
}  // namespace

LoRA::LoRA(std::int64_t in, std::int64_t r, std::int64_t out, const LoRAOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight", [=] { return factors(in, r, out, o); })),
      in_size(in),
      rank(r),
      out_size(out) {}

Array LoRA::update(const Array& x) {
  require_tail(lora_text(in_size, rank, out_size), x, {in_size});
  const Array y = with_folded_axes(x, 1, [&](const Array& rows) {
    const Array a = weight.value("lora_a"), b = weight.value("lora_b");
    return lora_matmul(rows, a, b, {}, {.alpha = 1.0 / static_cast<double>(rank)});
  });
  return base_ == nullptr ? y : y + (*base_)(x);
}

}  // namespace etrace::nn
