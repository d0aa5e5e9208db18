// One line per image: 64 numbers 0 … 16, the label; packed. See data/README.md for origin and licence.
#include "data/digits.h"

#include <fmt/format.h>

#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

extern const std::string_view kDigits;  // made of data/digits.csv.gz by the build

std::unique_ptr<Dataset> read_digits(std::int64_t per_step) {
  constexpr std::int64_t kPixels = 64, kLargest = 16;
  if (per_step < 1 || kPixels % per_step != 0)
    throw ValueError("data",
                     fmt::format("{} pixels per step; expected one of 1, 2, 4, 8, 16, 32, 64", per_step));
  const std::string name = "the digits of the library", text = gunzip(kDigits, name);
  auto out = std::make_unique<DenseData>();
  out->name = "digits";
  out->channels = per_step;
  for (int digit = 0; digit < 10; ++digit) out->classes.push_back(std::to_string(digit));
  std::size_t number = 0;
  for (const std::string_view line : Pieces(text, '\n')) {
    if (line.empty()) continue;
    ++number;
    std::vector<float> values;
    for (const std::string_view field : split(line, ',')) {
      double value = 0.0;
      if (!parse_number(field, value)) bad_line(name, number, fmt::format("'{}' is no number", field));
      values.push_back(static_cast<float>(value / kLargest));
    }
    if (values.size() != kPixels + 1) bad_line(name, number, "expected 64 pixels and a label");
    const auto label = static_cast<std::int32_t>(values.back() * kLargest);
    values.pop_back();
    out->add({.steps = kPixels / per_step, .label = label}, values);
  }
  return out;
}

}  // namespace etrace::data
