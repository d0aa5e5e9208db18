#include "base/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace etrace {

namespace {

// Exponents of ones only, the mark of what is not finite, carry into the sign when one more is added.
// Stretches keep the look short where one is.
template <class Bits, class T>
bool finite_values(std::span<const T> values, Bits ones) {
  static_assert(sizeof(Bits) == sizeof(T));
  constexpr std::size_t kStretch = 4096;
  const Bits one = ones & (~ones + 1);
  for (std::size_t first = 0; first < values.size(); first += kStretch) {
    const std::size_t last = std::min(values.size(), first + kStretch);
    Bits seen = 0;
    for (std::size_t i = first; i < last; ++i) seen |= (std::bit_cast<Bits>(values[i]) & ones) + one;
    if (seen >> (8 * sizeof(Bits) - 1) != 0) return false;
  }
  return true;
}

}  // namespace

bool all_finite(const Tensor& t) {
  if (!is_floating(t.dtype())) return true;
  if (t.dtype() == Dtype::F32) return finite_values(t.data<float>(), std::uint32_t{0x7f800000});
  if (t.dtype() == Dtype::F64) return finite_values(t.data<double>(), std::uint64_t{0x7ff0000000000000});
  for (const double v : t.to_doubles())
    if (!std::isfinite(v)) return false;
  return true;
}

}  // namespace etrace
