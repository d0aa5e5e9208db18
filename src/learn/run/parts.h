// Parts of sequences: a window reads its stretch of the data where it lies, and writes its results into their
// place among those of the whole sequence.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

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

// Entries of windows that did not run: NaN, or zero where that is none.
inline void clear_part(Tensor& all, std::int64_t entries, std::int64_t begin, std::int64_t steps) {
  const Aval part{all.dtype(), all.shape().without(0).with_front(steps)};
  const Tensor none = Tensor::full(
      part, is_floating(part.dtype) ? Scalar(std::numeric_limits<double>::quiet_NaN()) : Scalar(0.0));
  std::memcpy(all.writable() + bytes_before(all.aval(), entries, begin), none.bytes(), part.bytes());
}

// Whether one of the steps is marked; without marks none is.
inline bool any_of_steps(const std::vector<bool>& marked, std::int64_t begin, std::int64_t steps) {
  return !marked.empty() && std::find(marked.begin() + begin, marked.begin() + begin + steps, true) !=
                                marked.begin() + begin + steps;
}

inline std::string steps_text(std::int64_t first, std::int64_t steps) {
  return steps == 1 ? "step " + std::to_string(first)
                    : "steps " + std::to_string(first) + " to " + std::to_string(first + steps - 1);
}

}  // namespace etrace
