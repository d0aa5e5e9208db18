// One number for the bits of an array, to pin results that must be the same on every machine.
#pragma once

#include <cstdint>
#include <cstring>

#include "etrace/array.h"

namespace etrace::testing {

inline std::uint64_t fingerprint(const Array& a) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a over words
  for (const double value : a.tensor().to_doubles()) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    hash = (hash ^ word) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace etrace::testing
