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

#include <array>
#include <string>

#include "etrace/train.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// The options that a file stands for, in its order: ("model", "gru"), ("set", "lag=40"). Flags are "true" or
// "false". ValueError names the file, the line and what is wrong; IoError: it cannot be read.
ConfigItems read_config(const std::string& path);

// The options of a run by its folder. What the folder keeps, a model file and series in memory, is taken from
// there, so that it may have moved; parameters come from the checkpoint. ValueError: it is no folder of a
// run; its task is one of a program's own and not `own_task`.
ConfigItems config_of_run(const std::string& folder, const Task* own_task = nullptr);

// Options that the learning rate follows from; a run that goes on may have others from there on.
inline constexpr std::array kRateOptions{"lr", "schedule", "warmup", "updates"};

// The same back as TOML: texts that are numbers or truth values become such.
std::string config_text(const ConfigItems&);

// A command as a shell takes it: "etrace train data --set 'file=my data.csv'".
std::string command_text(const std::vector<std::string>& words);

}  // namespace etrace::train
#pragma GCC visibility pop
