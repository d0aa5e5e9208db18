// K steps at once: Jacobians and signals carried through a window, so that a trace is passed once.
//   P_k = D_K···D_{k+1},  a_k = l_k + D_{k+1}ᵀ·a_{k+1}
#pragma once

#include "etrace/control.h"
#include "etrace/learning.h"

namespace etrace {

// A group's values with the states in front: [K, *varshape, M, …] -> [K, M, …, positions]. A descended loop
// of length L has its own axis behind K and gives K·L steps.
Array states_first(const HiddenGroup&, const Array& value, int state_axes);
// Signals [K, M, positions] of a group inside a descended loop: they belong to the last inner step of each.
Array at_last_substep(const HiddenGroup&, const Array& signal);

struct CarriedWindow {
  Array transition;  // P_0 [M, M, X]
  Array suffix;      // P_k [K, M, M, X]; undefined: K = 1, the identity
  Array entry;       // D_1ᵀ·a_1 [M, X]; undefined without signals
  Array adjoint;     // a_k [K, M, X]; undefined without signals
};
// jacobians [K, M, M, X], signals [K, M, X] or undefined.
CarriedWindow carry_window(const Array& jacobians, const Array& signals);
Array injection(const CarriedWindow&, const Array& df);  // P_k·f_k [K, M, X…]
Array weighted(const CarriedWindow&, const Array& df);   // Σ_a a_k·f_k [K, X…]

// No new state of the group depends on an old one inside its transition: D is zero by structure.
bool has_zero_jacobian(const HiddenGroup&);

// f for every step at once: mapped over the leading axis of all inputs or, for one step, written out.
Arrays side_by_side(std::int64_t steps, const Function& f, ArraySpan mapped);
// f once per step: by a loop, or, for one step, written out. Everything that f gives besides the carry comes
// back with a leading axis.
ScanResult over_steps(std::int64_t steps, const ScanBody& f, const Arrays& init, const Arrays& xs);

// active [K] or [K, B] as a condition on values [K, B, …] of this rank, and on a group's [K, M, X]; undefined
// stays.
Array sample_mask(const Array& active, std::size_t rank);
Array position_mask(const Array& active, const HiddenGroup&);

// Operands of a relation that parameters determine, at the values given; x is undefined.
Arrays parameter_operands(const ETraceGraph&, const HiddenParamOpRelation&, ArraySpan params);

}  // namespace etrace
