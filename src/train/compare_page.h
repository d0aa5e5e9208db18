// What a comparison of rules leaves behind: compare.json, and a page with the curves of all rules.
#pragma once

#include <string>
#include <vector>

#include "train/many_runs.h"

#pragma GCC visibility push(default)
namespace etrace::train {

struct ComparisonTitle {
  std::string task, model;
  std::vector<std::string> command;  // behind `etrace`
};
// `folder`: of the runs RULE-SEED; groups are named by their rule. IoError.
void write_comparison(const std::string& folder, const ComparisonTitle&, const std::vector<RunGroup>&);

}  // namespace etrace::train
#pragma GCC visibility pop
