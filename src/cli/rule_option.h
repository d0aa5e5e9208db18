// --rule and what goes with it, for every verb that takes a learning rule. Names, options and help come from
// the rows.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "etrace/learning_rule.h"
#include "etrace/trace_passes.h"

namespace etrace::cli {

struct RuleArguments {
  std::string rule = "D_RTRL";
  std::vector<std::string> options;  // NAME=VALUE
  std::optional<double> decay, input_decay;
  std::optional<int> rank;
  std::string trace_dtype;

  void add_to(CLI::App& verb);
  std::vector<std::string> option_texts() const;  // all of them as NAME=VALUE
  std::shared_ptr<const LearningRule> make() const;
};

// --method, for verbs that run rules: single steps or windows. `method` stays empty unless it is given.
void add_trace_pass_option(CLI::App& verb, std::vector<TracePassWish>&);  // they must outlive the verb
void add_method_option(CLI::App& verb, std::optional<VjpMethod>& method, const std::string& otherwise);

// Every rule in a line, with its options: for help texts.
std::string rules_help();        // with every option
std::string rules_short_help();  // a line each

}  // namespace etrace::cli
