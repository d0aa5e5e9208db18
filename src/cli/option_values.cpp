#include "cli/option_values.h"

#include <cmath>

#include "base/nearest.h"

namespace etrace::cli {

CLI::Validator number() {
  return {[](const std::string& text) -> std::string {
            const char *begin = text.data() + (text.starts_with('+') ? 1 : 0),
                       *end = text.data() + text.size();
            double value = 0.0;
            const auto [stop, error] = std::from_chars(begin, end, value);
            if (error == std::errc() && stop == end && std::isfinite(value)) return "";
            return fmt::format("expected a number, got '{}'", text);
          },
          ""};
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
