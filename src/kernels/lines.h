// The entries of a sparse matrix, sorted by line (a row or a column), in tables of 32-bit numbers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace etrace {

struct Lines {
  std::int64_t lines, size;
  const std::int32_t* first;  // of line l: entries first[l] … first[l+1] − 1 of the lists below
  const std::int32_t* other;  // which line of the other axis each entry stands in
  const std::int32_t* entry;  // its number in the lists that were given; null: they were in this order

  bool in_order() const { return entry == nullptr; }
  std::int64_t entry_at(std::int64_t i) const { return in_order() ? i : entry[i]; }
  // The first line of a part: parts have about as many entries each.
  std::int64_t part_begin(std::int64_t part, std::int64_t parts) const {
    if (part == parts) return lines;
    return std::lower_bound(first, first + lines, size * part / parts) - first;
  }
};

}  // namespace etrace
