// K steps at once: Jacobians and signals carried through a window, so that a trace is passed once.
//   P_k = D_K···D_{k+1},  b_k = s_k + D_kᵀ·(l_k + b_{k+1})
// l_k: the signal to the state after step k, s_k: to the state before it. What step k adds to a trace meets
// b_{k+1} by its past, once it is over, and l_k by its own step.
#pragma once

#include "etrace/control.h"
#include "etrace/learning_rule.h"

namespace etrace {

// A group's values with the states in front: [K, *varshape, M, …] -> [K, M, …, positions]. A descended loop
// of length L has its own axis behind K and gives K·L steps.
Array states_first(const HiddenGroup&, const Array& value, int state_axes);

struct CarriedWindow {
  Array transition;  // P_0 [M, M, X]
  Array suffix;      // P_k [K, M, M, X]; undefined: K = 1, the identity
  Dims columns;      // which columns the suffix has, where it has not all of them; empty: all
  Array entry;       // b_1 [M, X]; undefined without signals
  Array later;       // what meets step k's addition by its past [K, M, X]; undefined: nothing
  Array own;         // and by its own step [K, M, X]; undefined without signals
};
// Signals per step [K, M, X]; undefined: none.
struct StepSignals {
  Array after, before;
};
// jacobians [K·L, M, M, X], where a group inside a descended loop of length L moves in inner steps. They have
// b_{k+1} by their past and l_k by their own step, both carried to them within the loop.
CarriedWindow carry_window(const Array& jacobians, const StepSignals&, std::int64_t inner = 1);
// The same for traces of many states per slot (SnAp), of K > 1 steps. A step's Jacobian of type [M, M, X] is
// made from what `each` has of it when its turn comes, so that one at a time is there, and products are
// matrix products per position. f is zero but in `columns`, so that the suffix needs no others.
using JacobianOfStep = std::function<Array(ArraySpan now)>;
CarriedWindow carry_wide_window(const JacobianOfStep&, const Aval& type, const Arrays& each,
                                const StepSignals&, const Dims& columns);
Array injection(const CarriedWindow&, const Array& df);  // P_k·f_k [K, M, X…]
// Σ_a later·f [K, X…], with the own step's signal or without; undefined: nothing.
Array weighted(const CarriedWindow&, const Array& df, bool with_own);

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

// The key of stochastic rounding, which differs from call to call and from trace to trace; undefined for
// traces of more than 16 bits.
Array rounding_key(const WindowData&, Dtype stored, std::size_t trace);

// Operands of a relation that parameters determine, at the values given; x is undefined.
Arrays parameter_operands(const ETraceGraph&, const HiddenParamOpRelation&, ArraySpan params);

}  // namespace etrace
