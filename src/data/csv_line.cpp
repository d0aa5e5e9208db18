#include "data/csv_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

char separator_of(std::string_view line) {
  for (const char c : {'\t', ';'})
    if (line.find(c) != std::string_view::npos && line.find(',') == std::string_view::npos) return c;
  return ',';
}

bool too_many_fields(std::string_view line, char separator) {
  return line.size() > kMostColumns &&
         static_cast<std::size_t>(std::count(line.begin(), line.end(), separator)) >= kMostColumns;
}

bool split_fields(std::string_view line, char separator, Fields& out) {
  // Texts that are there already are used again: a stream has millions of lines.
  std::size_t used = 0;
  const auto begin_field = [&]() -> std::string& {
    if (used == out.size()) out.emplace_back();
    out[used].clear();
    return out[used++];
  };
  std::string* field = &begin_field();
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        *field += line[i++];
      else
        quoted = !quoted;
    } else if (c == separator && !quoted) {
      field = &begin_field();
    } else {
      *field += c;
    }
  }
  out.resize(used);
  return !quoted;
}

bool no_numbers(const Fields& fields) {
  double value = 0.0;
  return std::none_of(fields.begin(), fields.end(),
                      [&](const std::string& f) { return parse_number(f, value); });
}

std::size_t column_of(const std::string& path, const Fields& names, std::size_t columns,
                      const std::string& option, const std::string& text) {
  const auto at = std::find_if(names.begin(), names.end(),
                               [&](const std::string& name) { return trimmed(name) == trimmed(text); });
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  double value = 0.0;
  const auto count = static_cast<double>(columns);
  if (parse_number(text, value) && value == std::floor(value) && value >= -count && value < count)
    return static_cast<std::size_t>(value < 0 ? value + count : value);
  throw ValueError(
      "data", fmt::format("'{}' has no column '{}'{}, which the option {} names; expected a column: {}", path,
                          text, did_you_mean(text, names), option,
                          names.empty() ? fmt::format("a number from 0 to {}", count - 1)
                                        : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace etrace::data
