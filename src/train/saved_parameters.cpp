// Reading and fitting; see the header.
#include "train/saved_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/finite.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/param_values.h"
#include "module/parameter_file.h"
#include "train/arrays.h"

namespace etrace::train {

namespace {

constexpr std::string_view kSetPrefix = "--set ";

// Calls fit; an error that it throws also says what the file was saved from.
template <class F>
void fit_or_explain(const TensorFile& file, const std::string& path, F&& fit) {
  try {
    fit();
  } catch (const ValueError& e) {
    const SavedSettings saved(file, path);
    std::string from;
    for (const char* key : {"task", "--model", "--hidden", "--dtype"})
      if (const std::string* text = saved.find(key)) from += fmt::format(" {} {}", key, *text);
    if (from.empty()) throw;
    throw ValueError(e.stage(), fmt::format("{}. The file was saved from{}", e.message(), from));
  }
}

Tensor widened(const Tensor& value, Dtype wanted) {
  const bool exact = value.dtype() == Dtype::F32 && wanted == Dtype::F64;
  return exact ? convert(value, wanted).tensor() : value;
}

}  // namespace

void save_with_settings(const Module& module, const SettingTexts& settings, const std::string& path) {
  TensorFile file = parameter_file(module);
  file.metadata = settings;
  write_parameter_file(path, std::move(file));
}

SettingTexts checkpoint_notes(const TensorFile& file) {
  constexpr std::string_view kPrefix = "note.";
  SettingTexts notes;
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(kPrefix)) notes.emplace_back(key.substr(kPrefix.size()), value);
  return notes;
}

const std::string* SavedSettings::find(std::string_view key) const {
  const auto is_it = [&](const auto& item) { return item.first == key; };
  const auto at = std::find_if(file_.metadata.begin(), file_.metadata.end(), is_it);
  return at == file_.metadata.end() ? nullptr : &at->second;
}

void SavedSettings::refuse(std::string_view key, const std::string& text) const {
  throw ValueError("parameters", fmt::format("'{}' says that {} was '{}', which cannot be; give the option "
                                             "itself",
                                             path_, key, text));
}

template <class T>
T SavedSettings::parsed(std::string_view key, const std::string& text) const {
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) refuse(key, text);
  return value;
}

void SavedSettings::text(std::string_view key, std::string& value) const {
  if (const std::string* found = find(key)) value = *found;
}
void SavedSettings::number(std::string_view key, std::int64_t& value) const {
  if (const std::string* found = find(key)) value = parsed<std::int64_t>(key, *found);
}
void SavedSettings::number(std::string_view key, std::uint64_t& value) const {
  if (const std::string* found = find(key)) value = parsed<std::uint64_t>(key, *found);
}

void SavedSettings::number(std::string_view key, double& value) const {
  if (const std::string* found = find(key)) value = parsed<double>(key, *found);
}

void SavedSettings::sizes(Dims& value) const {
  const std::string* found = find("sizes");
  if (found == nullptr) return;
  value.clear();
  for (std::size_t at = 0; at <= found->size();) {
    const std::size_t end = std::min(found->find('-', at), found->size());
    value.push_back(parsed<std::int64_t>("sizes", found->substr(at, end - at)));
    at = end + 1;
  }
}

void SavedSettings::task_options(std::vector<std::pair<std::string, std::string>>& out) const {
  for (const auto& [key, value] : file_.metadata) {
    if (!key.starts_with(kSetPrefix)) continue;
    const std::string name = key.substr(kSetPrefix.size());
    const auto is_it = [&](const auto& s) { return s.first == name; };
    if (std::any_of(out.begin(), out.end(), is_it)) continue;
    const bool is_file = name == "file" && path_.find('/') != std::string::npos;
    out.emplace_back(name, is_file ? file_of_words(value, path_.substr(0, path_.rfind('/'))) : value);
  }
}

std::shared_ptr<const data::Expected> SavedSettings::expected() const {
  const std::string* classes = find("data classes");
  if (classes == nullptr) return nullptr;
  const auto lines = [](const std::string& text) {
    std::vector<std::string> out;
    for (const std::string_view name : data::split(text, '\n')) out.emplace_back(name);
    return out;
  };
  data::Expected out{.classes = lines(*classes)};
  if (const std::string* inputs = find("data inputs")) out.columns.inputs = lines(*inputs);
  text("data label", out.columns.label);
  text("data series", out.columns.series);
  return std::make_shared<const data::Expected>(std::move(out));
}

namespace {
// Nothing that a run computes from such parameters means anything.
void require_finite(const TensorFile& file, const std::string& path) {
  for (const auto& [name, value] : file.tensors)
    if (!all_finite(value))
      throw ValueError(
          "parameters",
          fmt::format("'{}': {} holds numbers that are not finite; the run that saved it had diverged", path,
                      name));
}
}  // namespace

void take_parameters(Module& module, const TensorFile& file, const std::string& path) {
  require_finite(file, path);
  fit_or_explain(file, path, [&] { set_parameters(module, file, path); });
}

void take_parameters(Model& model, const TensorFile& file, const std::string& path) {
  require_finite(file, path);
  std::vector<InputRecord*> params;
  for (InputRecord& in : model.inputs)
    if (in.role == Role::Param) params.push_back(&in);
  WantedParameters wanted;
  TensorFile fitted = file;
  for (const InputRecord* p : params) {
    const std::string name = to_string(ParamLeafId{p->path, p->leaf, to_string(p->leaf_key)});
    wanted.emplace_back(name, p->init.aval());
    for (auto& [given, value] : fitted.tensors)
      if (given == name) value = widened(value, p->init.dtype());
  }
  fit_or_explain(file, path, [&] {
    const Tensors values = fitting_parameters(wanted, fitted, path);
    for (std::size_t k = 0; k < params.size(); ++k) params[k]->init = values[k];
  });
}

}  // namespace etrace::train
