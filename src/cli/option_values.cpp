#include "cli/option_values.h"

#include <cmath>

#include "base/nearest.h"

namespace etrace::cli {

namespace {
// A finite number that passes; else the error says what was expected of it.
template <class F>
CLI::Validator number_that(const F& passes, const std::string& expected) {
  return {[=](const std::string& text) -> std::string {
            const char *begin = text.data() + (text.starts_with('+') ? 1 : 0),
                       *end = text.data() + text.size();
            double value = 0.0;
            const auto [stop, error] = std::from_chars(begin, end, value);
            if (error != std::errc() || stop != end || !std::isfinite(value))
              return fmt::format("expected a number, got '{}'", text);
            return passes(value) ? "" : fmt::format("expected {}, got '{}'", expected, text);
          },
          ""};
}
}  // namespace

CLI::Validator number() {
  return number_that([](double) { return true; }, "a number");
}
CLI::Validator number_at_least(double low) {
  return number_that([=](double v) { return v >= low; }, fmt::format("a number that is {} or more", low));
}
CLI::Validator number_between(double low, double high) {
  return number_that([=](double v) { return v >= low && v <= high; },
                     fmt::format("a number from {} to {}", low, high));
}

CLI::Validator one_of(std::vector<std::string> names) {
  return {[names = std::move(names)](const std::string& text) -> std::string {
            if (std::find(names.begin(), names.end(), text) != names.end()) return "";
            return fmt::format("expected one of {}, got '{}'{}", fmt::join(names, ", "), text,
                               did_you_mean(text, names));
          },
          ""};
}

}  // namespace etrace::cli
