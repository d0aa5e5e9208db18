// Leaky readouts: hidden groups that other states feed and that feed results only, r ← λ·r + W·z. Private to
// the library.
#pragma once

#include "etrace/graph.h"

#pragma GCC visibility push(default)
namespace etrace {

struct LeakyReadout {
  std::size_t group = 0;
  std::optional<double> decay;  // λ, if it is one number in (0, 1) that is known before any step
  std::string unknown;          // why it is not
};
// A group is a leaky readout if
//   - a state of another group acts on it within a step,
//   - its states act on themselves and on results alone: on no other state and through no weight,
//   - it is linear in itself: what it keeps of itself depends on constants and parameters at most.
// So it is found by structure, whatever its name.
std::vector<LeakyReadout> leaky_readouts(const ETraceGraph&);

// The states that act on one of the given ones within a step, those themselves included, as indices of
// groups.
std::vector<bool> groups_that_feed(const ETraceGraph&, const std::vector<std::size_t>& groups);

}  // namespace etrace
#pragma GCC visibility pop
