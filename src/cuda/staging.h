// What the host gives to a program and takes from it, as the first and the last nodes of the program's graph:
// one launch copies in, runs, copies out, and tells the host that it is done. Both sides lie in one block of
// pinned memory. Small pieces are copied by a kernel, larger ones by the copy engine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/device.h"

namespace etrace::cuda {

#pragma GCC visibility push(default)
std::string copies_source();  // of the kernel that copies
#pragma GCC visibility pop

class Staging {
 public:
  explicit Staging(const Device& device) : device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Whether they are few and small enough. Otherwise they are copied before and after the graph.
  static bool takes(std::span<const DeviceMemory::Upload> given,
                    std::span<const DeviceMemory::Download> taken);
  // Of every run: where each stands in the block, and the given values in it.
  void fill(std::span<const DeviceMemory::Upload> given, std::span<const DeviceMemory::Download> taken);
  // Of a capture, before and behind the program: nodes that copy. After fill(), whose places they keep.
  void copy_in(std::span<const DeviceMemory::Upload> given) const;
  void copy_out(std::span<const DeviceMemory::Download> taken) const;
  // When the run is done, to the host's places.
  void finish(std::span<const DeviceMemory::Download> taken) const;

 private:
  void launch(std::uint64_t (&pointers)[50]) const;
  std::byte* place(std::size_t bytes);

  const Device& device_;
  std::byte* block_ = nullptr;  // the run's number; the number of the last run that is done; pieces
  std::size_t used_ = 0;
  std::vector<std::byte*> in_, out_;
};

}  // namespace etrace::cuda
