// What code is emitted for. The passes ask a Target where they have a choice; rows of targets are in
// target.cpp, and a new one is a row and, where its text looks different, a printer.
#pragma once

#include <span>
#include <string_view>

#include "core/named_kernel.h"
#include "emit/form.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

struct Target {
  std::string_view name, doc;

  // Loops.
  bool vectors = true;         // the innermost loops are marked as vectors
  Index lanes = 16;            // positions that fill a vector; short axes are kept where fewer were left
  Index block = 512;           // positions of the vector axis, or of a line, that are kept near
  Index most_parts = 64;       // for threads; 1: there are none
  double part_work = 1 << 17;  // additions that outweigh the hand-over to another thread
  std::size_t near_bytes = 5 << 18;  // what a thread's own cache may hold of matrices that it reads again
  Dtype index = Dtype::I64;          // of loop variables and sizes: I64 or I32
  Dtype f32_sums = Dtype::F64;       // what sums and products of f32 are formed in: F64 or F32

  bool splits_loops = false;  // a step of a loop over time costs a launch at every time
  bool fuses_late = false;    // values are made where they are used: less memory, more loops
  // Limits: of a fused nest, and of what is written out instead of looped over.
  std::size_t most_stmts = 160, most_pointers = 28, most_spelled = 96;
  Index short_each = 4, short_fold = 8;

  bool skip_zeros =
      false;  // products as loops leave out rows whose factor is 0: the same bits for finite numbers

  // What may be called: kernels whose rows have one of these bits (KernelRow::targets). Where there is none,
  // a product is a loop, and an operation is expanded by its `lower`, or refused with NotSupportedError.
  std::uint8_t kernels = kHostCpu;
  bool has(const NamedKernel* k) const {  // null: a row's own code
    return (kernels & (k != nullptr ? k->row->targets : kRowTargets)) != 0;
  }
  // Operations that the target has code of its own for, whatever the table says.
  bool (*has_operation)(std::string_view) = nullptr;
  bool has(const Primitive& p, const NamedKernel* k) const {
    return (has_operation != nullptr && has_operation(p.name())) || has(k);
  }
  bool has_products() const { return (kernels & find_kernel("matrix_product")->targets) != 0; }
  // Products of integers are products, not calls of the row that has them.
  bool integer_products() const { return (kernels & kRowTargets) == 0; }

  // Memory: an arena and constants that the host gives, or static arrays, one for every type, as the
  // compiler's options are not ours.
  enum Memory : std::uint8_t { Host, Static } memory = Host;
};

std::span<const Target> targets();
const Target& find_target(std::string_view name);  // ValueError names the others
const Target& native_target();

}  // namespace etrace::emit
#pragma GCC visibility pop
