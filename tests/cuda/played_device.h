// The backend cuda on a device that a CPU plays (tests/cuda/played).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/program.h"
#include "session/program_run.h"
#include "support/native.h"

namespace etrace::testing {

// Before anything asks for CUDA. ETRACE_TEST_ON_DEVICE=1: not played, but the device of this machine. (An
// empty ETRACE_CUDA_LIBRARY would say the same, but some programs that start others leave empty variables
// out.)
inline void use_played_device() {
  const char* real = std::getenv("ETRACE_TEST_ON_DEVICE");
  if (real == nullptr || *real != '1')
    ::setenv("ETRACE_CUDA_LIBRARY", ETRACE_PLAYED_CUDA, 0);  // perhaps another build of it is named
  use_test_cache();
}

class PlayedDevice : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { use_played_device(); }
};

// What a program gives on the device, run twice on the same values: the second time as a graph.
inline Tensors run_on_device(const Program& p, std::span<const Tensor> args) {
  const Backend& backend = find_backend("cuda");
  const auto code = backend.compile(p);
  const DeviceMemory& memory = *backend.memory();
  std::vector<std::shared_ptr<void>> in, out;
  for (const Port& port : p.arguments) in.push_back(memory.allocate(port.aval.bytes()));
  for (const Port& port : p.results) out.push_back(memory.allocate(port.aval.bytes()));
  for (const Alias& a : p.aliases) out[a.result] = in[a.argument];
  std::vector<const void*> arguments;
  std::vector<void*> results;
  for (const auto& b : in) arguments.push_back(b.get());
  for (const auto& b : out) results.push_back(b.get());
  Tensors first;
  for (int run = 0; run < 3; ++run) {
    for (std::size_t i = 0; i < in.size(); ++i)
      memory.upload(in[i].get(), args[i].bytes(), args[i].aval().bytes());
    code->run(arguments.data(), results.data());
    code->wait();
    Tensors found;
    for (std::size_t i = 0; i < out.size(); ++i) {
      found.push_back(Tensor::uninitialized(p.results[i].aval));
      memory.download(found[i].writable(), out[i].get(), p.results[i].aval.bytes());
    }
    if (run == 0) first = found;
    for (std::size_t i = 0; i < out.size(); ++i)
      EXPECT_TRUE(same_bits(found[i], first[i])) << p.results[i].name << " of run " << run;
  }
  return first;
}

}  // namespace etrace::testing
