// The entries of a sparse matrix, sorted by line (a row or a column), with 32-bit numbers. Private to ops/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "etrace/ops/sparse.h"

#pragma GCC visibility push(default)
namespace etrace {

struct SparseLines {
  std::vector<std::int32_t> first;      // of line l: entries first[l] … first[l+1] − 1 of the lists below
  std::span<const std::int32_t> other;  // which line of the other axis each entry stands in
  std::vector<std::int32_t> entry;  // its number in the lists that were given; empty: they were in this order
  SharedList held;                  // what `other` looks at: the list that was given, if it was in order

  std::int64_t lines() const { return static_cast<std::int64_t>(first.size()) - 1; }
  std::int64_t size() const { return static_cast<std::int64_t>(other.size()); }
  bool in_order() const { return entry.empty(); }
};

// Entries p at (line[p], other[p]), in ascending p within each line. Kernels of one pattern share one copy
// for as long as one of them lives, if their parameters share the lists.
std::shared_ptr<const SparseLines> sparse_lines(const SharedList& line, const SharedList& other,
                                                std::int64_t lines);
// As kernels have them (kernels/lines.h): first, other and, if not in order, entry.
Tensors tables_of(const std::shared_ptr<const SparseLines>&);
SparseLines sort_lines(const SharedList& line, const SharedList& other, std::int64_t lines);

}  // namespace etrace
#pragma GCC visibility pop
