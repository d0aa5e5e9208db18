// Arithmetic on single elements that plain C++ leaves undefined or decides otherwise. Integers never trap:
// sums and products wrap around, dividing by zero and the quotient of the smallest number and -1 are defined.
// Maxima pass NaN on.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace etrace::elementwise {

template <class T>
T wrapping_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}
template <class T>
T wrapping_difference(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  else
    return a - b;
}
template <class T>
T wrapping_product(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}
template <class T>
T negated(T x) {
  if constexpr (std::is_integral_v<T>)
    return wrapping_difference(T{0}, x);
  else
    return -x;
}

// The smallest number divided by -1 leaves the range and traps on common hardware.
template <class T>
bool quotient_overflows(T a, T b) {
  return std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1);
}
// Towards zero; x/0 has all bits set, min/-1 = min.
template <class T>
T quotient(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a / b;
  else
    return b == 0 ? static_cast<T>(-1) : quotient_overflows(a, b) ? a : static_cast<T>(a / b);
}

// A NaN in either operand is the result. Two plain choices: gcc vectorises these, not one with `||`.
template <class T>
T larger(T a, T b) {
  const T winner = b < a ? a : b;
  return a != a ? a : winner;
}
template <class T>
T smaller(T a, T b) {
  const T winner = a < b ? a : b;
  return a != a ? a : winner;
}

}  // namespace etrace::elementwise
