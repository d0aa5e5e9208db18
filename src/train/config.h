// Configurations of runs: TOML whose keys are the long options of `etrace train`, without dashes.
//
//   task = "copying"
//   model = "gru"
//   lr = 0.003
//   [set]                 # --set NAME=VALUE
//   lag = 40
//   [rule-option]         # --rule-option NAME=VALUE
//   decay_or_rank = 0.95
#pragma once

#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::train {

// The options that a file stands for, in its order: ("model", "gru"), ("set", "lag=40"). Flags are "true" or
// "false". ValueError names the file, the line and what is wrong; IoError: it cannot be read.
using ConfigItems = std::vector<std::pair<std::string, std::string>>;
ConfigItems read_config(const std::string& path);

// The same back as TOML: texts that are numbers or truth values become such.
std::string config_text(const ConfigItems&);

}  // namespace etrace::train
#pragma GCC visibility pop
