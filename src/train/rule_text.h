// Learning rules from texts, as the command line and configurations have them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "etrace/learning_rule.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// `options`: NAME=VALUE each, the last one of a name counts. ValueError for another form, and what make_rule
// says of names and values.
std::shared_ptr<const LearningRule> rule_from(const std::string& rule,
                                              const std::vector<std::string>& options);

}  // namespace etrace::train
#pragma GCC visibility pop
