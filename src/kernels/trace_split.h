// How the slots of a trace are dealt out to threads.
#pragma once

#include <algorithm>

#include "kernels/trace_geometry.h"

namespace etrace::trace_pass {

// No two parts add to one element of the gradient, and no sum depends on where a part ends.
struct Split {
  enum Kind : std::uint8_t {
    Rows,     // stretches of rows, over all outer axes
    Inner,    // of the rows of every matrix: the outer axes share their parameters
    Columns,  // of the only row
  } kind = Rows;
  Index length = 0, parts = 1;

  // `any_columns`: whether the pass can take some columns of a row, where there is only one.
  Split(const Geometry& g, const etp_trace_window& d, Index threads, bool any_columns = false) {
    const bool one_row = any_columns && g.matrices * g.row.size == 1;
    kind = g.gathered != 0 || one_row ? Columns : g.shared != 0 ? Inner : Rows;
    length = kind == Columns ? g.column.size : kind == Inner ? g.row.size : g.matrices * g.row.size;
    const bool may_split =
        kind == Rows || (kind == Inner && g.row.parameter != 0) || (kind == Columns && g.shared == 0);
    constexpr Index kPerStep = 8;
    if (may_split) parts = threads_of(d, threads_that_pay(d, threads, d.steps > 1 ? kPerStep : 1), length);
  }
  Index begin(int part) const { return length * part / parts; }
};

// Calls f(first, last, slot, start) for the rows [first, last) of every matrix in a part.
template <class F>
void for_rows(const Geometry& g, const Split& split, int part, const F& f) {
  const auto matrix_at = [&](Index matrix, Index first, Index last) {
    f(first, last, matrix * g.row.size * g.column.size, g.start_of(matrix));
  };
  const Index first = split.begin(part), last = split.begin(part + 1);
  if (split.kind == Split::Rows) {
    for (Index r = first; r < last;) {
      const Index begin = r % g.row.size, end = std::min(g.row.size, begin + last - r);
      matrix_at(r / g.row.size, begin, end);
      r += end - begin;
    }
    return;
  }
  for (Index m = 0; m < g.matrices; ++m)
    if (split.kind == Split::Inner)
      matrix_at(m, first, last);
    else
      matrix_at(m, 0, g.row.size);
}

}  // namespace etrace::trace_pass
