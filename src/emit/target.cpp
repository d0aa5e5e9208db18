#include "emit/target.h"

#include <string>

#include "emit/cuda_kernels.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

constexpr Target kTargets[] = {
    {.name = "native", .doc = "C with vectors and threads for this machine, which calls the library"},
    {.name = "c99",
     .doc = "scalar C99 that stands alone: static memory, 32-bit indices, no call into the library",
     .vectors = false,
     .lanes = 1,
     .most_parts = 1,
     .index = Dtype::I32,
     .fuses_late = true,
     .short_each = 1,
     .kernels = 0,
     .memory = Target::Static},
    {.name = "cuda",
     .doc = "CUDA C++: a kernel for every fused loop, products by a library",
     .vectors = false,
     .lanes = 1,
     .most_parts = 1,
     .splits_loops = true,
     .kernels = kCudaDevice,
     .has_operation = [](std::string_view name) { return find_cuda_row(name) != nullptr; }},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }
const Target& native_target() { return kTargets[0]; }

const Target& find_target(std::string_view name) {
  std::string names;
  for (const Target& t : kTargets) {
    if (t.name == name) return t;
    names += (names.empty() ? "" : ", ") + std::string(t.name);
  }
  throw ValueError("emit", "there is no target '" + std::string(name) + "'; targets: " + names);
}

}  // namespace etrace::emit
