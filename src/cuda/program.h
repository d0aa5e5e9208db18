// A program on a CUDA device. Its steps are launched one by one the first time; from the second run on they
// are one graph, captured once for every set of buffers and replayed, with what the host gives and takes if
// that is small. Where the host has to look at a value
// (while, cond), or a graph would be too large, they are always launched one by one; `reason` says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/staging.h"
#include "emit/cuda_unit.h"

#pragma GCC visibility push(default)
namespace etrace::cuda {

class CudaProgram final : public Runnable {
 public:
  // `image` is machine code of unit.source for the device.
  CudaProgram(std::string name, emit::CudaUnit unit, const std::string& image, std::vector<std::string> eqns,
              std::size_t arguments, std::size_t results);
  ~CudaProgram() override;
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  void run(const void* const* arguments, void* const* results) const override;
  bool run_between(std::span<const DeviceMemory::Upload> given, const void* const* arguments,
                   void* const* results, std::span<const DeviceMemory::Download> taken) const override;
  void wait() const override { device_.wait(); }
  std::size_t arena_bytes() const override { return unit_.arena_bytes + unit_.scratch_bytes; }
  void prepare() const override;

  const emit::CudaUnit& unit() const { return unit_; }
  const std::string& reason() const { return reason_; }  // why there is no graph; empty: there is one
  std::int64_t captures() const { return captures_; }    // graphs made so far

 private:
  struct Graph {
    std::vector<std::uint64_t> buffers;
    CUgraphExec code;
  };
  class Walk;
  // What is copied inside the graph, or null.
  struct Around {
    std::span<const DeviceMemory::Upload> given;
    std::span<const DeviceMemory::Download> taken;
  };
  void launch_graph(const void* const* arguments, void* const* results, const Around* around) const;
  CUgraphExec captured(const void* const* arguments, void* const* results, const Around* around) const;

  Device& device_;
  const std::string name_;
  const emit::CudaUnit unit_;
  std::string reason_;
  std::size_t num_arguments_ = 0, num_results_ = 0;
  CUmodule module_ = nullptr;
  std::vector<CUfunction> functions_;
  // Made by the first run.
  mutable std::shared_ptr<void> arena_, scratch_, counters_;
  mutable std::vector<std::shared_ptr<void>> constants_;
  mutable bool ready_ = false, has_run_ = false;
  mutable std::vector<Graph> graphs_;  // the one used last comes last
  mutable std::vector<std::uint64_t> wanted_;
  mutable std::int64_t captures_ = 0;
  mutable Staging staging_{device_};
};

// Whether products of float32 may be rounded to TF32 on the way: ETRACE_MATMUL_PRECISION=tf32. ValueError for
// other words than float32 and tf32.
bool products_in_tf32();

}  // namespace etrace::cuda
#pragma GCC visibility pop
