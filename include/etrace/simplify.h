// Lean programs: what is computed twice, never read, or known beforehand goes. Inputs, outputs and every bit
// of the results stay.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

// The lean form of a program that will run (marks for differentiation and calls with derivatives of their own
// go): the passes below, in this order, until none changes anything.
ClosedJaxpr simplify(const ClosedJaxpr&);
struct SimplifyPass {
  std::string_view name, doc;
  bool (*run)(ClosedJaxpr&);  // in place, bodies included; true if it changed anything
};
std::span<const SimplifyPass> simplify_passes();

// Parts of it, for programs that are differentiated later: all marks stay.
ClosedJaxpr eliminate_common_subexpressions(const ClosedJaxpr&);
constexpr std::int64_t kFoldUpTo = 4096;
// What is known is evaluated, up to this many elements; x·1 and the like are x.
ClosedJaxpr fold_constants(const ClosedJaxpr&, std::int64_t max_elements = kFoldUpTo);

}  // namespace etrace
#pragma GCC visibility pop
