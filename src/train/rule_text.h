// Learning rules from texts, as the command line and configurations have them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/learning_rule.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// Backpropagation through time stands beside the rules: any case, "BPTT" as settings have it. It takes no
// options.
inline constexpr std::string_view kBptt = "BPTT";
bool is_bptt(std::string_view rule);
// The rule as its row spells it, or BPTT. ValueError lists the names.
std::string rule_name(const std::string& rule);

// `options`: NAME=VALUE each, the last one of a name counts. ValueError for another form, and what make_rule
// says of names and values.
std::shared_ptr<const LearningRule> rule_from(const std::string& rule,
                                              const std::vector<std::string>& options);

// ValueError in the words of the command line for a rule that takes a modulator and has none.
void require_modulator(const char* stage, const LearningRule&);

}  // namespace etrace::train
#pragma GCC visibility pop
