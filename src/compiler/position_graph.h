// Which positions of a hidden group depend on which, read off a program. One analysis serves the diagonal
// flag of a transition, the warning about tails, and the neighbourhoods of SnAp.
#pragma once

#include <span>
#include <string>

#include "etrace/compiler.h"

#pragma GCC visibility push(default)
namespace etrace {

// What a program does to positions on the way from its sources to its outputs.
struct PositionSweep {
  std::string reason;  // why positions may be moved or coupled; empty: each stays where it is
  const Eqn* mixing =
      nullptr;  // the only mixing equation, if all else preserves positions and its pattern may be known
  const Eqn* at = nullptr;  // that the reason is about, if it is about one
  bool preserving() const { return reason.empty() && mixing == nullptr; }
};
// `varshape` are the positions; sources are Vars over them. Under compat the reference's allow-list decides.
PositionSweep sweep_positions(const Jaxpr&, std::span<const Var> sources, const Shape& varshape, Compat);

// Why samples in the leading axis of the sources may act on each other; empty: they do not.
std::string why_samples_mix(const Jaxpr&, std::span<const Var> sources, std::int64_t samples);
// The same of values: they pass stop_gradient, comparisons and whole numbers too.
std::string why_sample_values_mix(const Jaxpr&, std::span<const Var> sources, std::int64_t samples);

// The SnAp-n neighbourhood of a group, from its transition.
PositionPattern position_pattern(const HiddenGroup&, std::int64_t n, const CompileOptions&);

}  // namespace etrace
#pragma GCC visibility pop
