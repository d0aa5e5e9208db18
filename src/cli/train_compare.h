// `etrace train … --compare RULE,RULE --seeds N`: the same run by several rules and from several seeds, each
// in a process of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "train/run.h"

namespace etrace::cli {

struct CompareArguments {
  std::vector<std::string> rules;
  std::int64_t seeds = 1, jobs = 0;  // jobs 0: as many as the machine has processors

  void add_to(CLI::App& verb);
  bool wanted() const { return !rules.empty() || seeds > 1; }
};

// `settings` as one run has them, resolved; the words that were typed are given to every run. Exit status.
int run_compare(const CompareArguments&, const train::TrainSettings& settings, const train::RunPlan&,
                bool quiet);

}  // namespace etrace::cli
