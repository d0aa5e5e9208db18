#include "etrace/nn/weight_standardization.h"

#include "etrace/ops/numpy.h"
#include "nn/check.h"

namespace etrace::nn {

Array weight_standardization(const Array& w, double epsilon) {
  if (w.rank() < 2) wrong_input("weight_standardization", w, "[…,in,out]");
  Dims axes;
  for (std::size_t a = 0; a + 1 < w.rank(); ++a) axes.push_back(static_cast<std::int64_t>(a));
  const double count = static_cast<double>(w.size()) / static_cast<double>(w.shape().back());
  const Array centre = mean(w, axes, true);
  const Array spread = variance(w, axes, true);
  const Array scale = rsqrt(maximum(spread * count, epsilon));
  const Array shift = centre * scale;
  return w * scale - shift;
}

}  // namespace etrace::nn
