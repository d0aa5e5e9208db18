// A program as loaded native code.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emit/c_printer.h"
#include "etrace/backend.h"
#include "interp/arena.h"
#include "native/module.h"

namespace etrace::native {

class NativeProgram final : public Runnable {
 public:
  // The module must have been made from print_c() of this program. IoError if it calls what this library
  // does not have.
  NativeProgram(emit::EmitProgram, std::shared_ptr<const LoadedModule>, const etp_context&);
  ~NativeProgram() override;
  void run(const void* const* arguments, void* const* results) const override {
    run_at(nullptr, arguments, results);
  }
  void run_at(const std::uint64_t* versions, const void* const* arguments,
              void* const* results) const override;
  std::size_t arena_bytes() const override { return memory_bytes_; }
  void prepare() const override;

 private:
  // Arena and scratch of one run. Runs at the same time take different ones; they are kept for the next.
  AlignedBuffer* take_memory() const;
  void give_back(AlignedBuffer*) const;
  std::size_t scratch_of(const emit::HostSteps&);
  void bind();
  // Forgets what was known of arguments that have been written since.
  void forget(std::byte* memory, const std::uint64_t* versions) const;

  std::map<std::string, Kernel> rows_;  // those that the host runs by itself, by name
  std::vector<etp_callee> callees_;
  etp_context context_;
  emit::EmitProgram program_;
  std::shared_ptr<const LoadedModule> module_;
  std::vector<const void*> constants_;
  // Arguments of which a product knows something, by its byte in etp_context.known; it learnt that at a
  // version, which is kept with the memory.
  struct Known {
    std::size_t byte, argument;
  };
  std::vector<Known> known_;
  std::size_t versions_offset_ = 0, scratch_offset_ = 0, memory_bytes_ = 0;
  mutable std::array<std::atomic<AlignedBuffer*>, 16> spare_{};
};

}  // namespace etrace::native
