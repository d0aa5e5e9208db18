// Parts of sequences: a window reads its stretch of the data where it lies, and writes its results into their
// place among those of the whole sequence.
#pragma once

#include "session/session.h"

namespace etrace {

// Bytes before entry `begin` of an array that has `entries` along its first axis.
inline std::size_t bytes_before(const Aval& all, std::int64_t entries, std::int64_t begin) {
  return all.bytes() / static_cast<std::size_t>(entries) * static_cast<std::size_t>(begin);
}

// Type of one entry of a result of a window; of a single step, which has no time axis, all of it.
inline Aval entry_type(const Aval& part, std::int64_t steps) {
  return {part.dtype, steps > 1 ? part.shape.without(0) : part.shape};
}

// The result is written from entry `begin` of `all` on, which is made if it is not there.
inline void take_part(Launch& l, std::size_t result, std::int64_t steps, Tensor& all, std::int64_t entries,
                      std::int64_t begin) {
  const Aval one = entry_type(l.program().results[result].aval, steps);
  if (!all.defined()) all = Tensor::zeros({one.dtype, one.shape.with_front(entries)});
  l.take(result, all.writable() + bytes_before(all.aval(), entries, begin));
}

}  // namespace etrace
