// A program as loaded native code.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/workspace.h"
#include "emit/c_printer.h"
#include "interp/arena.h"
#include "native/module.h"

namespace etrace::native {

class NativeProgram final : public Runnable {
 public:
  // The module must have been made from print_c() of this program. IoError if it calls what this library
  // does not have.
  NativeProgram(emit::EmitProgram, std::shared_ptr<const LoadedModule>, const etp_context&,
                std::shared_ptr<Workspace> = {});
  ~NativeProgram() override;
  void run(const void* const* arguments, void* const* results) const override {
    run_at(nullptr, arguments, results);
  }
  void run_at(const std::uint64_t* versions, const void* const* arguments,
              void* const* results) const override;
  std::size_t arena_bytes() const override { return work_bytes_; }
  void prepare() const override;

 private:
  // What a run needs: facts about arguments, which are kept for the next one, and room for arena and scratch.
  // Runs at the same time take different ones.
  struct RunMemory {
    AlignedBuffer facts;
    AlignedBuffer room = {};  // where there is no workspace to be had
  };
  class Taken;
  RunMemory* take_memory() const;
  void give_back(RunMemory*) const;
  std::size_t scratch_of(const emit::HostSteps&);
  std::size_t scratch_of_rows(const emit::HostSteps&);
  void bind();
  // Forgets what was known of arguments that have been written since.
  void forget(std::byte* facts, const std::uint64_t* versions) const;

  std::map<std::string, Kernel> rows_;  // those that the host runs by itself, by name
  std::vector<etp_callee> callees_;
  etp_context context_;
  emit::EmitProgram program_;
  std::shared_ptr<const LoadedModule> module_;
  std::vector<const void*> constants_;
  // Arguments of which a product knows something, by its byte in etp_context.known; it learnt that at a
  // version, which is kept beside it.
  struct Known {
    std::size_t byte, argument;
  };
  std::vector<Known> known_;
  std::size_t versions_offset_ = 0, facts_bytes_ = 0;  // known, versions
  std::size_t scratch_offset_ = 0, work_bytes_ = 0;    // arena, scratch
  std::size_t row_scratch_ = 0;                        // for each part of a loop that is shared by rows
  std::shared_ptr<Workspace> workspace_;
  mutable std::array<std::atomic<RunMemory*>, 16> spare_{};
};

}  // namespace etrace::native
