// Lists of arrays in pieces.
#pragma once

#include <initializer_list>

#include "etrace/array.h"

namespace etrace {

inline Arrays joined(std::initializer_list<ArraySpan> parts) {
  Arrays out;
  for (const ArraySpan part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// The next `count` of a list, which then starts behind them.
inline ArraySpan take_front(ArraySpan& from, std::size_t count) {
  const ArraySpan front = from.first(count);
  from = from.subspan(count);
  return front;
}
inline Arrays to_list(ArraySpan a) { return {a.begin(), a.end()}; }

}  // namespace etrace
