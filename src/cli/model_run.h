// A model on a sequence, for verbs that measure gradients: a built-in model or a file, random data or what
// the file carries, and a loss.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "etrace/learner.h"

namespace etrace::cli {

struct ModelRun {
  std::string stage;  // the verb, for errors
  std::int64_t default_steps = 20;
  std::string model = {}, dtype = {}, loss = "mse", load = {};
  std::optional<std::int64_t> steps = {}, batch = {};
  std::vector<std::int64_t> sizes = {};
  std::uint64_t seed = 0;
  double scale = 1.0;

  void add_model_options(CLI::App& verb);     // MODEL, --load, --sizes, --batch, --dtype, --seed
  void add_sequence_options(CLI::App& verb);  // --steps, --loss, --scale

  Model make_model() const;
  // One sequence per argument, then the targets of the first result.
  Arrays sequences(const Model&) const;
  StepFunction step() const;  // the loss of one step
};

}  // namespace etrace::cli
