// How many bytes the program has asked for and not given back: a count, not pages, which files and the kernel
// move.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // Debian's gcc has no header for it
#endif

namespace etrace::testing {

// Blocks that a thread keeps for its next request count as held.
constexpr std::int64_t kMayVary = 64 << 10;

inline std::int64_t held_bytes() {
#if defined(__SANITIZE_ADDRESS__)
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 all = ::mallinfo2();  // of every arena
  return static_cast<std::int64_t>(all.uordblks + all.hblkhd);
#endif
}

}  // namespace etrace::testing
