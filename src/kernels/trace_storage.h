// Traces in another type than that of their sums: loads and stores of stretches.
#pragma once

#include <type_traits>

#include "kernels/trace_geometry.h"
#include "runtime/etp_math.h"

namespace etrace::trace_pass {

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

template <class T, class S>
constexpr auto round_to() -> decltype(Storage<T>::round) {
  if constexpr (sizeof(S) != 2)
    return nullptr;
  else
    return [](const T* from, Index n, void* to, std::uint32_t key, std::uint32_t place) {
      S* p = static_cast<S*>(to);
      for (Index j = 0; j < n; ++j) {
        const auto x = static_cast<float>(from[j]);
        const std::uint32_t at = place + static_cast<std::uint32_t>(j);
        p[j].bits = std::is_same_v<S, Half> ? etp_f32_to_f16_at(x, key, at) : etp_f32_to_bf16_at(x, key, at);
      }
    };
}

template <class T, class S>
Storage<T> stored_as() {
  if (std::is_same_v<T, S>) return {};
  return {sizeof(S),
          [](const void* from, Index n, T* to) {
            const S* p = static_cast<const S*>(from);
            for (Index j = 0; j < n; ++j) {
              if constexpr (std::is_same_v<S, Half>)
                to[j] = static_cast<T>(etp_f16_to_f32(p[j].bits));
              else if constexpr (std::is_same_v<S, Brain>)
                to[j] = static_cast<T>(etp_bf16_to_f32(p[j].bits));
              else
                to[j] = static_cast<T>(p[j]);
            }
          },
          [](const T* from, Index n, void* to) {
            S* p = static_cast<S*>(to);
            for (Index j = 0; j < n; ++j) {
              if constexpr (std::is_same_v<S, Half>)
                p[j].bits = etp_f32_to_f16(static_cast<float>(from[j]));
              else if constexpr (std::is_same_v<S, Brain>)
                p[j].bits = etp_f32_to_bf16(static_cast<float>(from[j]));
              else
                p[j] = static_cast<S>(from[j]);
            }
          },
          round_to<T, S>()};
}

template <class T>
Storage<T> storage_of(Index stored) {
  switch (stored) {
    case ETP_F64:
      return stored_as<T, double>();
    case ETP_F32:
      return stored_as<T, float>();
    case ETP_F16:
      return stored_as<T, Half>();
    default:
      return stored_as<T, Brain>();
  }
}

}  // namespace etrace::trace_pass
