// The first CUDA device: its context, one stream on which everything runs in order, one for copies beside it,
// memory, and copies through pinned buffers.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "cuda/driver.h"
#include "etrace/backend.h"

#pragma GCC visibility push(default)
namespace etrace::cuda {

// What there is of CUDA on this machine, for reports; asks for nothing that could fail.
struct CudaStatus {
  std::string missing;  // one line: why the backend cannot run; empty: it can
  std::string device;   // "NVIDIA H200, compute capability 9.0, 132 multiprocessors"
  std::size_t free_bytes = 0, total_bytes = 0;
  int driver_version = 0;  // 13000
  std::string compiler, products;
};
CudaStatus cuda_status();

class Device final : public DeviceMemory {  // NOLINT(cppcoreguidelines-virtual-class-destructor): final
 public:
  // IoError with one line that says what is missing.
  static Device& get();

  std::shared_ptr<void> allocate(std::size_t bytes) const override;
  void upload(void* to, const void* from_host, std::size_t bytes) const override;
  void upload_ahead(void* to, const void* from_host, std::size_t bytes) const override;
  void clear(void* at, std::size_t bytes) const override;
  void download(void* to_host, const void* from, std::size_t bytes) const override;
  std::size_t free_bytes() const override;
  void download_all(std::span<const Download>) const override;

  const CudaDriver& driver() const { return driver_; }
  CUstream stream() const { return stream_; }
  cublasHandle products() const { return products_; }
  const std::string& architecture() const { return architecture_; }  // "sm_90"
  // The calling thread works on this device from now on.
  void enter() const;
  void wait() const;
  // IoError "CUDA: WHAT: text of the error", unless the code is 0.
  void check(int code, const char* what) const;
  // One caller at a time: there is one stream.
  std::recursive_mutex& mutex() const { return mutex_; }

 private:
  Device();
  // Pinned memory, taken piece by piece; when it is used up, all copies of its stream so far are waited for.
  struct Pinned {
    CUstream stream = nullptr;
    std::byte* block = nullptr;
    std::size_t used = 0;
  };
  std::byte* staged(Pinned&, std::size_t bytes) const;
  void copy_in(Pinned&, void* to, const void* from_host, std::size_t bytes) const;

  const CudaDriver& driver_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  cublasHandle products_ = nullptr;
  CUdeviceptr workspace_ = 0;
  std::string architecture_;
  mutable std::recursive_mutex mutex_;
  mutable Pinned pinned_, pinned_ahead_;
  CUevent ahead_ = nullptr;
};

}  // namespace etrace::cuda
#pragma GCC visibility pop
