// A program with its kernels and its memory plan, ready to run in memory that the caller gives. It holds no
// state, so any number of threads may run it, each in a workspace of its own. Executable owns such memory;
// operations with bodies run their bodies in their scratch.
#pragma once

#include <cstddef>
#include <vector>

#include "interp/memory_plan.h"

namespace etrace {

// The first half of making a Routine: one kernel per equation.
struct ResolvedProgram {
  // Of a checked program. NotSupportedError names a primitive.
  ResolvedProgram(ClosedJaxpr, const etp_context&);
  std::vector<Alias> natural_aliases() const;

  ClosedJaxpr program;
  std::vector<Kernel> kernels;
  Values values;
};

class Routine {
 public:
  // Aliases: the two pointers may be the same, in each run anew.
  Routine(ResolvedProgram, std::vector<Alias> aliases);

  const ClosedJaxpr& program() const { return program_; }
  const std::vector<Alias>& aliases() const { return aliases_; }
  std::size_t calls() const { return calls_.size(); }
  std::size_t arena_bytes() const { return table_offset_; }  // values and scratch
  std::size_t workspace_bytes() const;                       // the arena and the pointers of the calls

  // A workspace is aligned as an arena is. It is prepared once, and again if somebody else has used it.
  void prepare(void* workspace) const;
  // No checks, no allocation. Aliased pointers may be the same; no other result overlaps an argument or
  // another result.
  void run(const void* const* arguments, void* const* results, void* workspace) const;

 private:
  struct Call {
    std::function<void(const KernelArgs&)> run;
    std::size_t in, out;  // of the table
    std::size_t scratch;
  };
  struct Patch {
    std::size_t entry;  // of the table
    std::size_t index;  // of the argument or result; byte offset in the arena
  };
  struct Fixed {
    std::size_t entry;
    const void* pointer;
  };
  const void* constant(const Place&) const;
  void add_entry(const Place&);
  void copy(const MemoryPlan::Copy&, const void* const* arguments, void* const* results,
            std::byte* workspace) const;

  ClosedJaxpr program_;
  std::vector<Alias> aliases_;
  Tensors literals_;
  std::vector<Call> calls_;
  std::size_t entries_ = 0, table_offset_ = 0;
  std::vector<Fixed> constant_entries_;
  std::vector<Patch> arena_entries_, argument_entries_, result_entries_;
  std::vector<MemoryPlan::Copy> before_, after_;
};

// A program as a kernel; results may lie in place of the arguments that they naturally replace.
Kernel routine_kernel(ResolvedProgram);

}  // namespace etrace
