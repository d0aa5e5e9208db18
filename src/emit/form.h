// Linear functions of loop variables, and how a row-major number is taken apart into indices.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "etrace/aval.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

using Index = std::int64_t;

Dims row_major(const Dims& sizes);  // strides

// first + Σ step[a]·i[a] + Σ stride·t. i are the variables of a nest's axes (or of a view's), t those of the
// loops around it.
struct Form {
  Index first = 0;
  Dims step{};
  std::vector<std::pair<int, Index>> time{};  // loop number, stride; ascending, no stride is 0
  bool operator==(const Form&) const = default;
};
Form sum(const Form&, const Form&);  // of forms over the same axes
Form scaled(const Form&, Index);
Form constant_form(Index first, std::size_t axes);
// Axis `axis`, of whatever size, becomes two: the inner one has size `inner`.
void split_axis(Form&, std::size_t axis, Index inner);
// The form over the variables that `indices` are forms of.
Form substitute(const Form& outer, std::span<const Form> indices, std::size_t axes);

// Sizes of the variables of a form.
struct Extents {
  Dims axes;
  std::vector<Index> loops;  // by loop number
};
struct Bounds {
  Index low, high;
};
Bounds bounds(const Form&, const Extents&);

// Whether two forms over the same axes name different elements at all pairs of positions (at one time).
bool never_meet(const Form&, const Form&, const Dims& axes);

// The indices of the element number `flat` of an array of these sizes, each as a form. Where an axis runs
// over more than one index, it has to be split first.
struct Decoded {
  enum Result : std::uint8_t { Done, Split, No } result = No;
  std::vector<Form> indices{};
  std::size_t axis = 0;  // Split: this axis, with this inner size
  Index inner = 0;
};
Decoded decode(const Form& flat, const Extents&, const Dims& sizes);

}  // namespace etrace::emit
#pragma GCC visibility pop
