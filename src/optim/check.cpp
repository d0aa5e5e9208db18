#include "optim/check.h"

#include <fmt/format.h>

#include <cmath>

#include "etrace/error.h"

namespace etrace::optim {

namespace {
void require(bool ok, std::string_view stage, std::string_view what, double value,
             std::string_view expected) {
  if (!ok || !std::isfinite(value))
    throw ValueError(std::string(stage), fmt::format("{} is {}; expected {}", what, value, expected));
}
}  // namespace

void require_positive(std::string_view stage, std::string_view what, double value) {
  require(value > 0.0, stage, what, value, "a finite number greater than 0");
}
void require_not_negative(std::string_view stage, std::string_view what, double value) {
  require(value >= 0.0, stage, what, value, "a finite number, 0 or greater");
}
void require_fraction(std::string_view stage, std::string_view what, double value) {
  require(value >= 0.0 && value < 1.0, stage, what, value, "at least 0 and less than 1");
}

}  // namespace etrace::optim
