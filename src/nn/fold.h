// Layers for one axis of samples, applied to any number of them.
#pragma once

#include "etrace/ops/shape.h"

namespace etrace::nn {

// f maps [batch, sample…] or [sample…]; more axes before the sample are folded into one and restored.
template <class F>
Array with_folded_axes(const Array& x, std::size_t sample_rank, F&& f) {
  if (x.rank() <= sample_rank + 1) return f(x);
  const Dims sizes = x.shape().to_dims();
  const auto first = sizes.end() - static_cast<std::ptrdiff_t>(sample_rank);
  Dims folded{Shape(Dims(sizes.begin(), first)).size()};
  folded.insert(folded.end(), first, sizes.end());
  const Array y = f(reshape(x, folded));
  Dims unfolded(sizes.begin(), first);
  unfolded.insert(unfolded.end(), y.shape().begin() + 1, y.shape().end());
  return reshape(y, unfolded);
}

}  // namespace etrace::nn
