// Words that the forms of a RuleComparison share. Private to learn/.
#pragma once

#include <string>

#include "etrace/compare_rules.h"

namespace etrace {

std::string mode_text(std::int64_t window);                                           // "single", "8"
std::string horizon_text(const RuleComparison&, const std::optional<std::int64_t>&);  // "7", "> 32", "-"
std::string microseconds_text(double seconds);

}  // namespace etrace
