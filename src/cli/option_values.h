// What options take, checked on the text before it becomes a value: CLI11 alone wraps or cuts whole numbers
// that do not fit, and takes numbers that are none.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

namespace etrace::cli {

inline constexpr std::int64_t kMany = 1'000'000'000'000;            // more than any count can sensibly be
inline constexpr std::int64_t kMostOfARun = std::int64_t{1} << 20;  // of steps, samples, features

// A whole number from low to high, both allowed.
template <class T>
CLI::Validator whole_number(T low, T high) {
  return {[low, high](const std::string& text) -> std::string {
            const char *begin = text.data() + (text.starts_with('+') ? 1 : 0),
                       *end = text.data() + text.size();
            T value{};
            const auto [stop, error] = std::from_chars(begin, end, value);
            if (error == std::errc() && stop == end && value >= low && value <= high) return "";
            return fmt::format("expected a whole number from {} to {}, got '{}'", low, high, text);
          },
          ""};
}
inline CLI::Validator count_from(std::int64_t low) { return whole_number<std::int64_t>(low, kMany); }
inline CLI::Validator seed_number() { return whole_number<std::uint64_t>(0, UINT64_MAX); }

CLI::Validator number();                                 // a finite one
CLI::Validator number_at_least(double low);              // low is allowed
CLI::Validator number_between(double low, double high);  // both allowed
CLI::Validator one_of(std::vector<std::string> names);   // the error says which was probably meant

}  // namespace etrace::cli
