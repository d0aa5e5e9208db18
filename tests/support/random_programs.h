// Random programs of elementwise operations, broadcasts, reductions, views and products, for tests that
// compare engines. Many of them stand side by side in one program, so that one compilation serves all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etrace/backend.h"

namespace etrace::testing {

struct RandomPrograms {
  Program program;
  Tensors arguments;
  std::vector<std::string> labels;  // per result: how it came about
};
// `count` programs from consecutive seeds; leading axes of their arguments have size `batch`.
RandomPrograms random_programs(std::uint64_t seed, std::size_t count, Dtype, std::int64_t batch);

}  // namespace etrace::testing
