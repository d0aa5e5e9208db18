// The order in which a reduction joins the elements of one result, from the operand's shape and the reduced
// axes alone: one definition for the interpreter's kernel (reduce.cpp) and for emitted code (emit/lower.cpp).
//
// The reduced axes behind every kept one, axes of size 1 aside, are the *line*; the reduced axes in front of
// them are the *chain*. The positions of the chain run in row-major order:
//   without a line   element by element, one chain that begins with the neutral element
//   with a line      line by line; a line in blocks and lanes (runtime/etp_fold.h)
// A result of one element is that element.
#pragma once

#include "etrace/aval.h"

#pragma GCC visibility push(default)
namespace etrace {

struct ReduceOrder {
  Dims chain, line;  // axes of a size other than 1, ascending
  bool joins() const { return !chain.empty() || !line.empty(); }
};
ReduceOrder reduce_order(const Shape&, const Dims& axes);

}  // namespace etrace
#pragma GCC visibility pop
