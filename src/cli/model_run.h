// A model on a sequence, for verbs that measure gradients: a built-in model or a file, random data or what
// the file carries, and a loss.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cli/model_choice.h"
#include "etrace/learner.h"

namespace etrace::cli {

struct ModelRun : ModelChoice {
  explicit ModelRun(std::string stage, std::int64_t default_steps = 20)
      : ModelChoice(std::move(stage), Dtype::F64), default_steps(default_steps) {}

  std::int64_t default_steps;
  std::string loss = "mse";
  std::optional<std::int64_t> steps = {};
  double scale = 1.0;

  void add_sequence_options(CLI::App& verb);  // --steps, --loss, --scale

  bool carries_sequences(const Model&) const;  // the model file has them; otherwise they are drawn
  // One sequence per argument, then the targets of the first result.
  Arrays sequences(const Model&) const;
  StepFunction step() const;  // the loss of one step
  // A line for the folder of a run, whose data is not what is measured on; else nothing.
  std::string about_data() const;
};

}  // namespace etrace::cli
