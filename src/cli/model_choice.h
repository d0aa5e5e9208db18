// Which model a verb works on: a built-in one of any size, batch and type, or a model file. One group of
// options, with one meaning, for every verb that takes a MODEL.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "etrace/models.h"

namespace etrace::cli {

struct ModelChoice {
  ModelChoice(std::string stage, Dtype own_dtype) : stage(std::move(stage)), own_dtype(own_dtype) {}

  std::string stage;  // the verb, for errors
  Dtype own_dtype;    // of a built-in model, where --dtype is not given
  std::string model = {}, dtype = {}, load = {};
  std::optional<std::int64_t> batch = {};
  Dims sizes = {};
  std::uint64_t seed = 0;
  std::vector<std::string> layers = {};  // in words, where the folder of a run has such a model

  void add_model_options(CLI::App& verb);  // MODEL, --load, --sizes, --batch, --dtype, --seed

  // The traced step, with the parameters of --load. ValueError for options that a model file does not take;
  // IoError if there is no such model.
  Model make_model() const;
  // The module itself, of the sizes that --load says but with parameters of its own; none for a model file.
  std::optional<ReadyModel> builtin() const;
};

}  // namespace etrace::cli
