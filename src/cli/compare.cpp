#include "cli/compare.h"

#include <fmt/format.h>

#include <cmath>

namespace etrace::cli {

Tolerance tolerance(const ExpectedRun& run, double for_f64, Dtype dtype) {
  const double t = dtype == Dtype::F64 ? for_f64 : 2e-5;
  return {run.rtol.value_or(t), run.atol.value_or(t)};
}

std::optional<std::string> difference(const std::string& what, const Tensor& found, const Tensor& expected,
                                      const Tolerance& t) {
  if (found.shape() != expected.shape())
    return fmt::format("{} has shape {}, expected {}", what, to_string(found.shape()),
                       to_string(expected.shape()));
  double worst = 0.0;
  std::int64_t at = -1;
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const double a = to_double(found.at(i)), b = to_double(expected.at(i));
    if (std::isnan(a) && std::isnan(b)) continue;
    const double d = a == b ? 0.0 : std::abs(a - b);
    const bool good = d <= t.atol + t.rtol * std::abs(b);
    if (!good && !(d <= worst)) {
      worst = std::isnan(d) ? INFINITY : d;
      at = i;
    }
  }
  if (at < 0) return std::nullopt;
  return fmt::format("{} differs at element {} of {}: {} instead of {} (by {:.3g}, allowed {:.3g})", what, at,
                     expected.size(), to_double(found.at(at)), to_double(expected.at(at)), worst,
                     t.atol + t.rtol * std::abs(to_double(expected.at(at))));
}

}  // namespace etrace::cli
