// e^(−dt/τ): what one step leaves of a quantity that decays.
#pragma once

#include <cmath>
#include <string>

#include "etrace/array.h"
#include "etrace/error.h"

namespace etrace::nn {

inline double decay(std::string_view layer, double dt, double tau) {
  if (!(dt > 0.0) || !(tau > 0.0))
    throw ValueError("nn",
                     std::string(layer) + " with dt = " + std::to_string(dt) + " and a time constant of " +
                         std::to_string(tau) + "; both must be positive",
                     OriginScope::current());
  return std::exp(-dt / tau);
}

}  // namespace etrace::nn
