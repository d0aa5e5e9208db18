// Lean programs: what is computed twice, never read, or known beforehand goes. Inputs, outputs and every bit
// of the results stay.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

// A program that runs and of which nobody takes a derivative any more. Simplification drops what only
// derivatives read: stop_gradient, slopes of spikes, rules of functions with derivatives of their own. So its
// result is no ClosedJaxpr: jvp, vjp, vmap, calls, recordings and model files do not take it.
class LeanJaxpr {
 public:
  explicit LeanJaxpr(ClosedJaxpr program) : program_(std::move(program)) {}  // for good
  const ClosedJaxpr& to_run() const& { return program_; }
  ClosedJaxpr to_run() && { return std::move(program_); }
  ClosedJaxpr& passed() { return program_; }  // for passes

 private:
  ClosedJaxpr program_;
};

// The lean form of a program that will run: the passes below, in this order, until none changes anything.
LeanJaxpr simplify(ClosedJaxpr);
struct SimplifyPass {
  std::string_view name, doc;
  bool (*run)(LeanJaxpr&);  // in place, bodies included; true if it changed anything
};
std::span<const SimplifyPass> simplify_passes();

// Parts of it, for programs that are differentiated later: all marks stay.
ClosedJaxpr eliminate_common_subexpressions(const ClosedJaxpr&);
constexpr std::int64_t kFoldUpTo = 4096;
// What is known is evaluated, up to this many elements; x·1 and the like are x.
ClosedJaxpr fold_constants(const ClosedJaxpr&, std::int64_t max_elements = kFoldUpTo);

}  // namespace etrace
#pragma GCC visibility pop
