// Files of parameters that `etrace train --save` writes and --load reads. A safetensors file also holds the
// settings of the run, under the names of the command line's options.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "etrace/model_io.h"
#include "etrace/save.h"

#pragma GCC visibility push(default)
namespace etrace::train {

using SettingTexts = std::vector<std::pair<std::string, std::string>>;
void save_with_settings(const Module&, const SettingTexts&, const std::string& path);

// What a checkpoint was told to keep (Learner::save), before a learner takes it over, which needs tensors
// that fit.
SettingTexts checkpoint_notes(const TensorFile&);

// What a file says about the run that it comes from. Values stay as they are where it says nothing;
// ValueError if it says what cannot be.
class SavedSettings {
 public:
  SavedSettings(const TensorFile& file, const std::string& path) : file_(file), path_(path) {}

  const std::string* find(std::string_view key) const;  // null if there is none
  void text(std::string_view key, std::string& value) const;
  void number(std::string_view key, std::int64_t& value) const;
  void number(std::string_view key, std::uint64_t& value) const;
  void number(std::string_view key, double& value) const;
  void sizes(Dims& value) const;  // of the model's layers, "10-64-10"
  // "--set lag" … of the task; those that are there already stay.
  void task_options(std::vector<std::pair<std::string, std::string>>&) const;
  // The columns and classes of its data; null: it says nothing of them.
  std::shared_ptr<const data::Expected> expected() const;

 private:
  [[noreturn]] void refuse(std::string_view key, const std::string& text) const;
  template <class T>
  T parsed(std::string_view key, const std::string& text) const;

  const TensorFile& file_;
  const std::string& path_;
};

// The parameters of the model become those of the file; f32 is widened where a model file or a traced step
// wants f64. ValueError names those that do not fit, and what the file says it was saved from.
void take_parameters(Module&, const TensorFile&, const std::string& path);
void take_parameters(Model&, const TensorFile&, const std::string& path);

}  // namespace etrace::train
#pragma GCC visibility pop
