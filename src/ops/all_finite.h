// Whether numbers are finite, as an operation of programs: any number of operands, one truth value.
#pragma once

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

// Operands are floating, or truth values that must hold. params: early (for planners: operands may be judged
// by what they are made from)
extern const Primitive all_finite_p;
inline bool is_look(const Eqn& eqn) { return eqn.prim == &all_finite_p; }

// Every element of every array is finite. Undefined arrays, whole numbers and truth values are.
Array all_finite(ArraySpan);
// Whether `so_far` is true, and all of these are finite; with `early`.
Array all_finite_early(const Array& so_far, ArraySpan);

}  // namespace etrace
#pragma GCC visibility pop
