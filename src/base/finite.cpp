#include "base/finite.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace etrace {

namespace {

// 0·v is 0 for every v, unless one is not finite. Stretches keep the look short where one is.
template <class T>
bool finite_values(std::span<const T> values) {
  constexpr std::size_t kStretch = 4096, kSums = 16;
  for (std::size_t first = 0; first < values.size(); first += kStretch) {
    const std::size_t last = std::min(values.size(), first + kStretch);
    T sums[kSums] = {};
    std::size_t i = first;
    for (; i + kSums <= last; i += kSums)
      for (std::size_t j = 0; j < kSums; ++j) sums[j] += values[i + j] * T(0);
    for (; i < last; ++i) sums[0] += values[i] * T(0);
    T sum = 0;
    for (const T s : sums) sum += s;
    if (sum != T(0)) return false;
  }
  return true;
}

}  // namespace

bool all_finite(const Tensor& t) {
  if (!is_floating(t.dtype())) return true;
  if (t.dtype() == Dtype::F32) return finite_values(t.data<float>());
  if (t.dtype() == Dtype::F64) return finite_values(t.data<double>());
  for (const double v : t.to_doubles())
    if (!std::isfinite(v)) return false;
  return true;
}

}  // namespace etrace
