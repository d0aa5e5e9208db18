// Words that the forms of a RuleComparison share. Private to the library.
#pragma once

#include <string>

#include "etrace/compare_rules.h"

#pragma GCC visibility push(default)
namespace etrace {

std::string mode_text(std::int64_t window);                                   // "single", "8"
std::string horizon_text(const RuleComparison&, const RuleComparison::Row&);  // "7", "> 32", "-"
std::string horizon_text(const RuleComparison&, const std::optional<std::int64_t>&);
std::string microseconds_text(double seconds);
std::string seconds_text(double seconds);  // "0.04 s", "12 s"
std::string ratio_text(double);            // "0.93", "12.4"
std::string cosine_text(double);           // "0.931"

// to_string() in three parts, for who prints rows as they come.
std::string comparison_head(const RuleComparison&);
std::string comparison_row(const RuleComparison&, const RuleComparison::Row&);
std::string comparison_tail(const RuleComparison&);

}  // namespace etrace
#pragma GCC visibility pop
