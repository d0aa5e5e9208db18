// A kernel of the table (kernels/kernels.h) with its descriptor: what an equation becomes, for the
// interpreter as for emitted code.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "etrace/primitive.h"
#include "etrace/tensor.h"
#include "kernels/kernels.h"

#pragma GCC visibility push(default)
namespace etrace {

struct NamedKernel {
  const KernelRow* row = nullptr;
  std::vector<std::int64_t> descriptor;  // the fields that the row names
  // Which operand of the equation each operand of the kernel is; none: the kernel gets a null pointer.
  std::vector<std::optional<std::size_t>> operands;
  Tensors tables;  // the kernel's operands after those: what its descriptor has no room for

  template <class D>
  static NamedKernel of(std::string_view name, const D& descriptor,
                        std::vector<std::optional<std::size_t>> operands, Tensors tables = {}) {
    NamedKernel k{find_kernel(name), std::vector<std::int64_t>(sizeof(D) / sizeof(std::int64_t)),
                  std::move(operands), std::move(tables)};
    k.check(sizeof(D));
    std::memcpy(k.descriptor.data(), &descriptor, sizeof(D));
    return k;
  }
  std::size_t scratch_bytes(const etp_context&) const;
  std::vector<InPlace> in_place() const;  // by operands of the equation

 private:
  void check(std::size_t bytes) const;
};

// What runs it.
Kernel named_kernel(NamedKernel, const etp_context&);

}  // namespace etrace
#pragma GCC visibility pop
