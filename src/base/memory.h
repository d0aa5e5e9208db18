// Blocks of memory for numbers, and what is said when there is not enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "etrace/error.h"

#pragma GCC visibility push(default)
namespace etrace {

std::string bytes_text(std::int64_t bytes);  // "512 B", "1.5 KiB", "64 GiB"

inline constexpr std::size_t kBlockAlignment = 64;  // one cache line: kernels may use aligned vector loads

// A block of at least one byte; null if the machine has not so much free. A large block is refused before the
// system would promise what it cannot keep, and end the process later.
std::byte* allocate_block(std::size_t bytes);
void free_block(std::byte*) noexcept;

// The same, filled with zeros. A large one comes from the system, which clears pages when they are first
// touched: zeros that a program overwrites, as an empty trace, are not written twice. It is given back with
// its size.
std::byte* allocate_zeros(std::size_t bytes);
void free_zeros(std::byte*, std::size_t bytes) noexcept;

// The size of a layout after a further block of so many bytes, which begins at a multiple of the alignment.
// Sizes that cannot be counted stay at kUncountable, which no machine has.
inline constexpr std::size_t kUncountable =
    std::numeric_limits<std::ptrdiff_t>::max() / kBlockAlignment * kBlockAlignment;
inline std::size_t with_block(std::size_t size, std::size_t bytes) {
  if (bytes > kUncountable - kBlockAlignment) return kUncountable;
  const std::size_t need = (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  return need > kUncountable - size ? kUncountable : size + need;
}

// ValueError: "out of memory: WHAT takes 64 GiB, and 19.4 GiB are free".
[[noreturn]] void out_of_memory(const std::string& what, std::size_t bytes, const Origin& = {});
bool is_out_of_memory(const Error&);

}  // namespace etrace
#pragma GCC visibility pop
