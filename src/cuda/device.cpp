#include "cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "etrace/error.h"

namespace etrace::cuda {

namespace {

constexpr std::size_t kStaging = std::size_t{8} << 20U;
constexpr std::size_t kPiece = std::size_t{256} << 10U;     // of a large copy to the device
constexpr std::size_t kWorkspace = std::size_t{32} << 20U;  // for products, as Hopper wants it

enum Attribute : std::uint8_t { kMultiprocessors = 16, kMajor = 75, kMinor = 76 };

std::string first_missing(const CudaDriver& d) {
  constexpr const char* what[] = {"the driver of an NVIDIA GPU (libcuda.so.1)",
                                  "the runtime compiler NVRTC (libnvrtc.so; package nvidia-cuda-nvrtc)",
                                  "the library of products cuBLAS (libcublas.so; package nvidia-cublas)"};
  for (std::size_t i = 0; i < kLibraries; ++i)
    if (!d.missing[i].empty()) return fmt::format("{} was not found: {}", what[i], d.missing[i]);
  int count = 0;
  if (const int error = d.init(0); error != 0)
    return fmt::format("the driver does not start (error {})", error);
  if (d.device_count(&count) != 0 || count == 0) return "there is no CUDA device";
  return {};
}

}  // namespace

CudaStatus cuda_status() {
  const CudaDriver& d = cuda_driver();
  CudaStatus out;
  out.missing = first_missing(d);
  if (d.compiler_version != nullptr) {
    int major = 0, minor = 0;
    d.compiler_version(&major, &minor);
    out.compiler = fmt::format("NVRTC {}.{} ({})", major, minor, d.path[kCompiler]);
  }
  if (d.driver_version != nullptr) d.driver_version(&out.driver_version);
  if (!out.missing.empty()) return out;
  CUdevice device = 0;
  char name[128] = "";
  int major = 0, minor = 0, processors = 0;
  d.device_get(&device, 0);
  d.device_name(name, sizeof name, device);
  d.device_attribute(&major, kMajor, device);
  d.device_attribute(&minor, kMinor, device);
  d.device_attribute(&processors, kMultiprocessors, device);
  out.device =
      fmt::format("{}, compute capability {}.{}, {} multiprocessors", name, major, minor, processors);
  Device::get().enter();
  d.memory_info(&out.free_bytes, &out.total_bytes);
  int version = 0;
  d.products_version(Device::get().products(), &version);
  out.products = fmt::format("cuBLAS {} ({})", version, d.path[kProducts]);
  return out;
}

Device& Device::get() {
  static Device* const device = new Device;  // the driver may be gone before the destructors of a process
  return *device;
}

Device::Device() : driver_(cuda_driver()) {
  if (const std::string missing = first_missing(driver_); !missing.empty())
    throw IoError("cuda", "the backend cuda cannot run: " + missing);
  CUdevice device = 0;
  int major = 0, minor = 0;
  check(driver_.device_get(&device, 0), "the first device");
  check(driver_.device_attribute(&major, kMajor, device), "its compute capability");
  check(driver_.device_attribute(&minor, kMinor, device), "its compute capability");
  architecture_ = fmt::format("sm_{}{}", major, minor);
  check(driver_.context_retain(&context_, device), "its context");
  enter();
  constexpr unsigned kNonBlocking = 1;
  check(driver_.stream_create(&stream_, kNonBlocking), "a stream");
  check(driver_.products_create(&products_), "cuBLAS");
  check(driver_.products_stream(products_, stream_), "cuBLAS on a stream");
  check(driver_.memory_alloc(&workspace_, kWorkspace), "memory for products");
  check(driver_.products_workspace(products_, reinterpret_cast<void*>(workspace_), kWorkspace),
        "cuBLAS with its memory");
  pinned_.stream = stream_;
  check(driver_.stream_create(&pinned_ahead_.stream, kNonBlocking), "a stream for copies");
  constexpr unsigned kNoTiming = 2;
  check(driver_.event_create(&ahead_, kNoTiming), "an event");
}

void Device::check(int code, const char* what) const {
  if (code == 0) return;
  const char* text = nullptr;
  if (driver_.error_string != nullptr) driver_.error_string(code, &text);
  throw IoError("cuda",
                fmt::format("CUDA: {}: {} (error {})", what, text == nullptr ? "failed" : text, code));
}

void Device::enter() const { check(driver_.context_set(context_), "the device's context"); }
void Device::wait() const {
  const std::lock_guard lock(mutex_);
  enter();
  check(driver_.stream_wait(stream_), "a run on the device");
  pinned_.used = 0;
}

std::size_t Device::free_bytes() const {
  const std::lock_guard lock(mutex_);
  enter();
  std::size_t free = 0, total = 0;
  check(driver_.memory_info(&free, &total), "free memory");
  return free;
}

std::shared_ptr<void> Device::allocate(std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  enter();
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  std::size_t free = 0, total = 0;
  check(driver_.memory_info(&free, &total), "free memory");
  CUdeviceptr at = 0;
  // Refused before the driver tries: half of what it has may be held by what others are about to need.
  if (size > free || driver_.memory_alloc(&at, size) != 0)
    throw ValueError(
        "memory",
        fmt::format("out of memory: a buffer on the CUDA device takes {}, and {} of its {} are "
                    "free; windows of fewer steps, traces in bf16 (--trace-dtype), a smaller "
                    "batch, or the rule pp_prop take less",
                    bytes_text(static_cast<std::int64_t>(size)), bytes_text(static_cast<std::int64_t>(free)),
                    bytes_text(static_cast<std::int64_t>(total))));
  return {reinterpret_cast<void*>(at), [this](void* p) {
            const std::lock_guard again(mutex_);
            // A destructor has nobody to tell; what the device still does with it is waited for.
            if (driver_.context_set(context_) == 0 && driver_.stream_wait(stream_) == 0)
              driver_.memory_free(reinterpret_cast<CUdeviceptr>(p));
          }};
}

// A piece of pinned memory that no copy uses.
std::byte* Device::staged(Pinned& p, std::size_t bytes) const {
  if (p.block == nullptr) {
    void* block = nullptr;
    check(driver_.host_alloc(&block, kStaging, 0), "pinned memory");
    p.block = static_cast<std::byte*>(block);
  }
  if (p.used + bytes > kStaging) {
    check(driver_.stream_wait(p.stream), "copies to the device");
    p.used = 0;
  }
  std::byte* const at = p.block + p.used;
  p.used += (bytes + 63) / 64 * 64;
  return at;
}

// Piece by piece: the first ones are on their way while the others are put into pinned memory.
void Device::copy_in(Pinned& p, void* to, const void* from_host, std::size_t bytes) const {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(bytes - done, kPiece);
    std::byte* const pinned = staged(p, piece);
    std::memcpy(pinned, static_cast<const std::byte*>(from_host) + done, piece);
    check(driver_.copy_to_device(reinterpret_cast<CUdeviceptr>(to) + done, pinned, piece, p.stream),
          "a copy to the device");
    done += piece;
  }
}

void Device::upload(void* to, const void* from_host, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  enter();
  copy_in(pinned_, to, from_host, bytes);
}

void Device::upload_ahead(void* to, const void* from_host, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  enter();
  copy_in(pinned_ahead_, to, from_host, bytes);
  check(driver_.event_record(ahead_, pinned_ahead_.stream), "an event");
  check(driver_.stream_wait_event(stream_, ahead_, 0), "waiting for an event");
}

void Device::clear(void* at, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  enter();
  if (bytes > 0) check(driver_.fill(reinterpret_cast<CUdeviceptr>(at), 0, bytes, stream_), "filling memory");
}

void Device::download(void* to_host, const void* from, std::size_t bytes) const {
  const Download one{to_host, from, bytes};
  download_all({&one, 1});
}

// All small ones with one wait.
void Device::download_all(std::span<const Download> all) const {
  const std::lock_guard lock(mutex_);
  enter();
  struct Pending {
    void* to;
    const std::byte* pinned;
    std::size_t bytes;
  };
  std::vector<Pending> pending;
  const auto finish = [&] {
    check(driver_.stream_wait(stream_), "a run on the device");
    for (const Pending& p : pending) std::memcpy(p.to, p.pinned, p.bytes);
    pending.clear();
    pinned_.used = 0;
  };
  for (const Download& d : all)
    for (std::size_t done = 0; done < d.bytes;) {
      const std::size_t piece = std::min(d.bytes - done, kStaging / 2);
      if (pinned_.used + piece > kStaging) finish();
      std::byte* const pinned = staged(pinned_, piece);
      check(driver_.copy_to_host(pinned, reinterpret_cast<CUdeviceptr>(d.from) + done, piece, stream_),
            "a copy from the device");
      pending.push_back({static_cast<std::byte*>(d.to_host) + done, pinned, piece});
      done += piece;
    }
  finish();
}

}  // namespace etrace::cuda
