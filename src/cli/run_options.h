// The options that `etrace train` and `etrace eval` share: which task, and which model of what size. With
// --load FILE, what is not given is as the file says it was saved.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "etrace/save.h"
#include "train/training.h"

namespace etrace::cli {

using namespace train;  // NOLINT: the verbs are about runs

struct RunOptions {
  TrainSettings settings;
  // As typed; they become settings.
  std::vector<std::string> set;
  std::string dtype = "f32", load;

  // TASK, --model, --set, --hidden, --batch, --seed, --dtype, --load. The verb must outlive this.
  void add_to(CLI::App& verb, const char* load_doc);

  // What --load names; none if it was not given.
  std::optional<TensorFile> loaded() const;
  enum class Adopt { Model, ModelAndTask };  // of what the file says
  TrainSettings complete(const std::optional<TensorFile>& loaded, Adopt) const;

 private:
  CLI::App* verb_ = nullptr;
};

UpdateEvery update_option(const std::string& text);  // "sequence", "window" or "step"

// ValueError "--dtype f16: expected one of f32, f64".
Dtype dtype_option(const char* option, const std::string& text, std::initializer_list<Dtype> allowed);

// The foot of the help: tasks with what --set changes, and models.
std::string task_table();
std::string model_table();

}  // namespace etrace::cli
