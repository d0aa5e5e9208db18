// How many threads share a pass over so many elements. Private to ops/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/thread_pool.h"

namespace etrace {

// Decided when a kernel is made. Parts must not change a result, so that it depends on no number of threads.
inline int parts_of_work(std::int64_t elements) {
  constexpr std::int64_t kPart = 1 << 15;  // outweighs the hand-over to another thread
  if (elements < 2 * kPart) return 1;
  return static_cast<int>(std::min<std::int64_t>(elements / kPart, default_pool().size()));
}

}  // namespace etrace
