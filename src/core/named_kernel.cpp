#include "core/named_kernel.h"

#include "etrace/error.h"

namespace etrace {

namespace {
constexpr std::size_t kMostOperands = 24;
}

void NamedKernel::check(std::size_t bytes) const {
  ETRACE_CHECK(row != nullptr && row->fields.size() * sizeof(std::int64_t) == bytes);
  ETRACE_CHECK(operands.size() + tables.size() <= kMostOperands);
}

std::size_t NamedKernel::scratch_bytes(const etp_context& context) const {
  return row->scratch_bytes(descriptor.data(), context.threads);
}

std::vector<InPlace> NamedKernel::in_place() const {
  std::vector<InPlace> out;
  for (const auto& [result, operand] : row->in_place)
    if (operands[operand]) out.push_back({result, *operands[operand]});
  return out;
}

Kernel named_kernel(NamedKernel named, const etp_context& context) {
  const auto k = std::make_shared<const NamedKernel>(std::move(named));
  Kernel kernel;
  kernel.scratch_bytes = k->scratch_bytes(context);
  kernel.in_place = k->in_place();
  kernel.named = k;
  kernel.run = [k, context](const KernelArgs& args) {
    const void* in[kMostOperands];
    std::size_t n = 0;
    for (const std::optional<std::size_t>& operand : k->operands)
      in[n++] = operand ? args.in[*operand] : nullptr;
    for (const Tensor& table : k->tables) in[n++] = table.bytes();
    k->row->run(k->descriptor.data(), &context, in, args.out, args.scratch);
  };
  return kernel;
}

}  // namespace etrace
