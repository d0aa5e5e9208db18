// The table of kernels: what the interpreter and emitted code call, by name. Every target that has a kernel
// runs it with the same descriptor (kernels/etp_descriptors.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/etp_abi.h"
#include "kernels/etp_descriptors.h"

#pragma GCC visibility push(default)
namespace etrace {

// Bits of KernelRow::targets.
enum KernelTarget : std::uint8_t {
  kHostCpu = 1,       // code that runs inside the library's process
  kCudaDevice = 128,  // a CUDA device, by libraries or code of its own
};

struct KernelRow {
  std::string_view name;                     // "matrix_product"
  std::string_view descriptor;               // its type: "etp_matrix_product"
  std::span<const std::string_view> fields;  // of the descriptor, in order
  etp_kernel* run;
  std::size_t (*scratch_bytes)(const void* descriptor, std::int64_t threads);
  // {result, operand}: the result may lie where the operand lies. Used together or not.
  std::span<const std::pair<std::uint8_t, std::uint8_t>> in_place;
  std::uint8_t targets;
};

std::span<const KernelRow> kernel_rows();
const KernelRow* find_kernel(std::string_view name);  // null if there is none

// A row that has no kernel of its own name runs by its C++ code, and so on these targets alone.
inline constexpr std::uint8_t kRowTargets = kHostCpu;

// As the table has them.
etp_kernel run_matrix_product;
std::size_t matrix_product_scratch(const void* descriptor, std::int64_t threads);
etp_kernel run_sparse_product, run_sparse_gradient;
etp_kernel run_conv_direct, run_conv_patches;
std::size_t conv_direct_scratch(const void* descriptor, std::int64_t threads);
std::size_t conv_patches_scratch(const void* descriptor, std::int64_t threads);
std::size_t sparse_scratch(const void* descriptor, std::int64_t threads);
std::int64_t sparse_lanes(bool f32);  // entries, or samples, that are summed side by side

}  // namespace etrace
#pragma GCC visibility pop
