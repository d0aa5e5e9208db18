#include "cuda/staging.h"

#include <atomic>
#include <cstring>

#include "cuda/compile.h"
#include "emit/kernel_text.h"

namespace etrace::cuda {

namespace {

constexpr std::size_t kPieces = 16, kDone = 48, kNumber = 49;  // of etp_copies
constexpr std::size_t kBlock = std::size_t{256} << 10U;
constexpr std::size_t kSmall = 4096;  // bytes: a kernel copies them
constexpr std::size_t kHead = 128;    // two numbers, each on a line of its own
constexpr unsigned kThreads = 512;

std::uint64_t address(const void* p) { return reinterpret_cast<std::uint64_t>(p); }
std::size_t aligned(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

struct Copies {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
};

// One for all programs; it lives as long as the device.
CUfunction copies(const Device& device) {
  static const Copies loaded = [&] {
    const std::string image = cached_image(device.driver(), copies_source(), device.architecture());
    Copies c;
    device.check(device.driver().module_load(&c.module, image.data()), "loading compiled code");
    device.check(device.driver().module_function(&c.kernel, c.module, "etp_copies"),
                 "a kernel of compiled code");
    return c;
  }();
  return loaded.kernel;
}

template <class Pieces>
bool fits(const Pieces& all, std::size_t& total) {
  std::size_t small = 0;
  for (const auto& piece : all) {
    small += piece.bytes <= kSmall ? 1 : 0;
    total += aligned(piece.bytes);
  }
  return small <= kPieces;
}

}  // namespace

std::string copies_source() {
  return emit::kernel_text("etp_cuda.h") + emit::kernel_text("etp_cuda_copies.h");
}

Staging::~Staging() {
  if (block_ != nullptr) device_.driver().host_free(block_);
}

bool Staging::takes(std::span<const DeviceMemory::Upload> given,
                    std::span<const DeviceMemory::Download> taken) {
  std::size_t total = kHead;
  return fits(given, total) && fits(taken, total) && total <= kBlock;
}

std::byte* Staging::place(std::size_t bytes) {
  std::byte* const at = block_ + used_;
  used_ += aligned(bytes);
  return at;
}

void Staging::fill(std::span<const DeviceMemory::Upload> given,
                   std::span<const DeviceMemory::Download> taken) {
  if (block_ == nullptr) {
    static_cast<void>(copies(device_));
    void* block = nullptr;
    constexpr unsigned kPortable = 1, kMapped = 2;  // kernels see it
    device_.check(device_.driver().host_alloc(&block, kBlock, kPortable | kMapped), "pinned memory");
    block_ = static_cast<std::byte*>(block);
    std::memset(block_, 0, kHead);
  }
  used_ = kHead;
  in_.clear();
  out_.clear();
  for (const DeviceMemory::Upload& g : given) {
    in_.push_back(place(g.bytes));
    std::memcpy(in_.back(), g.from_host, g.bytes);
  }
  for (const DeviceMemory::Download& t : taken) out_.push_back(place(t.bytes));
  ++*reinterpret_cast<std::uint64_t*>(block_);
}

void Staging::launch(std::uint64_t (&pointers)[50]) const {
  void* parameters[] = {pointers};
  device_.check(device_.driver().launch(copies(device_), 1, 1, 1, kThreads, 1, 1, 0, device_.stream(),
                                        parameters, nullptr),
                "the kernel that copies");
}

void Staging::copy_in(std::span<const DeviceMemory::Upload> given) const {
  std::uint64_t pointers[50] = {};
  std::size_t small = 0;
  for (std::size_t k = 0; k < given.size(); ++k) {
    const DeviceMemory::Upload& g = given[k];
    if (g.bytes > kSmall) {
      device_.check(device_.driver().copy_to_device(address(g.to), in_[k], g.bytes, device_.stream()),
                    "a copy to the device");
      continue;
    }
    pointers[3 * small] = address(in_[k]), pointers[3 * small + 1] = address(g.to);
    pointers[3 * small + 2] = g.bytes;
    ++small;
  }
  if (small > 0) launch(pointers);
}

void Staging::copy_out(std::span<const DeviceMemory::Download> taken) const {
  std::uint64_t pointers[50] = {};
  std::size_t small = 0;
  for (std::size_t k = 0; k < taken.size(); ++k) {
    const DeviceMemory::Download& t = taken[k];
    if (t.bytes > kSmall) {
      device_.check(device_.driver().copy_to_host(out_[k], address(t.from), t.bytes, device_.stream()),
                    "a copy from the device");
      continue;
    }
    pointers[3 * small] = address(t.from), pointers[3 * small + 1] = address(out_[k]);
    pointers[3 * small + 2] = t.bytes;
    ++small;
  }
  pointers[kDone] = address(block_ + kHead / 2), pointers[kNumber] = address(block_);
  launch(pointers);
}

// Looks at the number for about as long as a short run takes; then the driver waits, which also says what has
// gone wrong.
void Staging::finish(std::span<const DeviceMemory::Download> taken) const {
  const std::uint64_t number = *reinterpret_cast<std::uint64_t*>(block_);
  const std::atomic_ref<std::uint64_t> done(*reinterpret_cast<std::uint64_t*>(block_ + kHead / 2));
  constexpr int kLooks = 1 << 14;
  for (int look = 0; done.load(std::memory_order_acquire) != number; ++look) {
    if (look < kLooks) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      continue;
    }
    device_.check(device_.driver().stream_wait(device_.stream()), "a run on the device");
    break;
  }
  for (std::size_t k = 0; k < taken.size(); ++k) std::memcpy(taken[k].to_host, out_[k], taken[k].bytes);
}

}  // namespace etrace::cuda
