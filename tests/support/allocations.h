// How often the program has asked for memory. Counted in test programs that include this in exactly one
// source: it replaces the global operators.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace etrace::testing {

inline std::atomic<std::size_t> allocation_count{0};
inline std::size_t allocations() { return allocation_count.load(); }

inline void* counted_allocation(std::size_t bytes, std::size_t alignment) {
  ++allocation_count;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace etrace::testing

// NOLINTBEGIN(misc-definitions-in-headers): in exactly one source
void* operator new(std::size_t bytes) {
  return etrace::testing::counted_allocation(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return etrace::testing::counted_allocation(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return etrace::testing::counted_allocation(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
// NOLINTEND(misc-definitions-in-headers)
