// A low-pass filter behind a trace, moved with it: a part of ParameterTraces.
#pragma once

#include "etrace/ops/numpy.h"

namespace etrace {

// The filter ē ← κ·ē + e behind a trace, as a lift of the states to (e, ē).
struct KappaLift {
  // The reference moves its filter when it forms a gradient: with each step in single-step mode, by the trace
  // at the entry of each window in multi-step mode, and not at all without a gradient.
  enum When : std::uint8_t { EachStep, AtEntry, Never } when = EachStep;
  double kappa = 0.0;

  static Array zeros_as(const Array& a) { return zeros_of(a.aval()); }
  // [[a, b], [c, d]] of [K, M, M, X]
  static Array blocks(const Array& a, const Array& b, const Array& c, const Array& d) {
    return concatenate(Arrays{concatenate(Arrays{a, b}, 2), concatenate(Arrays{c, d}, 2)}, 1);
  }
  static Array diagonal(double value, const Array& like) {
    const Array one = eye(like.shape()[1], like.dtype()) * value;
    return broadcast_in_dim(one, like.shape(), {1, 2});
  }
  Array jacobian(const Array& d) const {
    const Array none = zeros_as(d);
    if (when == EachStep) return blocks(d, none, d, diagonal(kappa, d));
    return blocks(d, none, none, diagonal(1.0, d));
  }
  Array injection(const Array& f) const {
    return concatenate(Arrays{f, when == EachStep ? f : zeros_as(f)}, 1);
  }
  static Array unfiltered(const Array& l) { return concatenate(Arrays{l, zeros_as(l)}, 1); }
  // filtered [M]: which states' signals meet ē, the others e; undefined: all
  static Array signal(const Array& l, const Array& filtered) {
    if (!filtered.defined()) return concatenate(Arrays{zeros_as(l), l}, 1);
    const Array to_filter = l * reshape(filtered, {1, filtered.size(), 1});
    return concatenate(Arrays{l - to_filter, to_filter}, 1);
  }
  // AtEntry: the step (e, ē) ← (e, κ·ē + e) in front of the window, and the signal in front of that.
  Array entry_step(const Array& transition) const {  // [2M, 2M, X]
    const Array wide = expand_dims(transition, {0});
    const std::int64_t m = transition.shape()[0] / 2;
    const Array d = slice_axis(slice_axis(wide, 1, 0, m), 2, 0, m), none = zeros_as(d);
    return squeeze(blocks(d, none, diagonal(1.0, d), diagonal(kappa, d)), {0});
  }
  Array entry_signal(const Array& l, const Array& filtered) const {
    const Array to_filter = filtered.defined() ? l * reshape(filtered, {1, filtered.size(), 1}) : l;
    return concatenate(Arrays{l, to_filter * kappa}, 1);
  }
};

}  // namespace etrace
