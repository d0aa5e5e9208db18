// Blocks of memory; see the header.
#include "base/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <optional>

namespace etrace {

namespace {

constexpr const char* kMemoryStage = "memory";
constexpr std::size_t kAskFirst = std::size_t{1} << 28U;  // smaller blocks are not worth the look
constexpr std::size_t kFromSystem = std::size_t{1}
                                    << 22U;  // from so many bytes on, zeros come from the system

// What the system can give without swapping; none if it does not say.
// LIMIT: a smaller limit of a container (cgroup) is not looked at; beyond it the system ends the process.
std::optional<std::size_t> free_memory() {
  std::ifstream info("/proc/meminfo");
  std::string key, unit;
  for (std::size_t kib = 0; info >> key >> kib; std::getline(info, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return std::nullopt;
}

bool is_free(std::size_t bytes) {
  if (bytes < kAskFirst) return true;
  const std::optional<std::size_t> free = free_memory();
  return !free || bytes <= *free;
}

// Large pages for a large block, where the system has them for the asking: a pass over a trace, or over the
// steps of a window, otherwise waits for an entry of the page table every few lines.
void ask_for_large_pages([[maybe_unused]] std::byte* block, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr std::size_t kWorth = std::size_t{1} << 22U, kPage = 4096;
  if (block == nullptr || bytes < kWorth) return;
  const std::size_t skipped = (kPage - reinterpret_cast<std::uintptr_t>(block) % kPage) % kPage;
  ::madvise(block + skipped, (bytes - skipped) / kPage * kPage,
            MADV_HUGEPAGE);  // a wish: errors do not matter
#endif
}

}  // namespace

std::string bytes_text(std::int64_t n) {
  static constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(n);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", n);
  return value < 99.95 ? fmt::format("{:.3g} {}", value, kUnits.at(unit))
                       : fmt::format("{:.0f} {}", value, kUnits.at(unit));
}

std::byte* allocate_block(std::size_t bytes) {
  if (!is_free(bytes)) return nullptr;
  auto* block = static_cast<std::byte*>(::operator new[](bytes == 0 ? kBlockAlignment : bytes,
                                                         std::align_val_t{kBlockAlignment}, std::nothrow));
  ask_for_large_pages(block, bytes);
  return block;
}

std::byte* allocate_zeros(std::size_t bytes) {
  if (bytes < kFromSystem) {
    std::byte* block = allocate_block(bytes);
    if (block != nullptr) std::memset(block, 0, bytes);
    return block;
  }
  if (!is_free(bytes)) return nullptr;
  void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  ask_for_large_pages(static_cast<std::byte*>(block), bytes);
  return static_cast<std::byte*>(block);
}

void free_zeros(std::byte* p, std::size_t bytes) noexcept {
  if (bytes < kFromSystem)
    free_block(p);
  else
    ::munmap(p, bytes);
}

void free_block(std::byte* p) noexcept { ::operator delete[](p, std::align_val_t{kBlockAlignment}); }

void out_of_memory(const std::string& what, std::size_t bytes, const Origin& origin) {
  static constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto text = [](std::size_t n) { return bytes_text(static_cast<std::int64_t>(std::min(n, kMost))); };
  const auto free = free_memory();
  throw ValueError(kMemoryStage,
                   fmt::format("out of memory: {} takes {}{}", what, text(bytes),
                               free ? fmt::format(", and {} are free", text(*free)) : std::string()),
                   origin);
}

bool is_out_of_memory(const Error& e) { return e.stage() == kMemoryStage; }

}  // namespace etrace
