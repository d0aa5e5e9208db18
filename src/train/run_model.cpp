#include "train/run_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/nearest.h"
#include "data/catalog.h"
#include "etrace/error.h"
#include "etrace/layered.h"
#include "etrace/ops/numpy.h"
#include "train/config.h"
#include "train/file_model.h"

namespace etrace::train {

namespace {

// Sizes of input and output from the task, of everything between from --hidden.
Dims sizes_of(const TrainSettings& s, const BuiltinModel& model, std::int64_t inputs, std::int64_t outputs) {
  Dims sizes(model.sizes.size(), s.hidden);
  sizes.front() = inputs;
  sizes.back() = outputs;
  return sizes;
}

// Of the first batch, over the steps of samples in which any channel is not zero.
double input_rms(const Task& task, std::int64_t batch) {
  const Tensor x = convert(task.batch(0, batch).inputs, Dtype::F64).tensor();
  const auto values = x.data<double>();
  const auto channels = static_cast<std::size_t>(task.spec().num_inputs);
  double total = 0.0;
  std::size_t steps = 0;
  for (std::size_t at = 0; at < values.size(); at += channels) {
    double power = 0.0;
    for (std::size_t c = 0; c < channels; ++c) power += values[at + c] * values[at + c];
    total += power;
    steps += power > 0.0;
  }
  return steps == 0 ? 0.0 : std::sqrt(total / static_cast<double>(steps * channels));
}

}  // namespace

ReadyModel layered_model(const std::vector<std::string>& texts, const ModelOptions& options) {
  std::vector<nn::LayerWords> layers;
  for (const std::string& text : texts) layers.push_back(nn::LayerWords::parse(text));
  std::shared_ptr<Module> module = nn::layered(layers, options);
  const Shape one{options.sizes.at(0)};
  init_all_states(*module, options.batch);
  return {std::move(module), {zeros(options.batch ? one.with_front(*options.batch) : one, options.dtype)}};
}

bool is_model_file(const std::string& model) { return model.ends_with(".json"); }

std::string short_model_name(const std::string& model) {
  return is_model_file(model) ? std::filesystem::path(model).stem().string() : model;
}

double memory_of(const TrainSettings& s, const Task& task) {
  return s.memory.value_or(static_cast<double>(task.spec().steps));
}

std::string model_words(const TrainSettings& s) {
  if (!s.layers.empty()) return fmt::format("{} {}", kLayers, fmt::join(s.layers, "; "));
  if (is_model_file(s.model)) return fmt::format("file {}", data::sha256(model_file_text(s)));
  return s.model;
}

void take_model_words(const std::string& words, const std::string& folder, TrainSettings& s) {
  s.layers.clear();
  const std::string prefix = std::string(kLayers) + " ";
  if (words.starts_with(prefix)) {
    for (std::size_t at = prefix.size(); at < words.size();) {
      const std::size_t end = std::min(words.find("; ", at), words.size());
      s.layers.push_back(words.substr(at, end - at));
      at = end + 2;
    }
    s.model = kLayers;
    return;
  }
  s.model = words;
  if (!words.starts_with("file ")) return;
  s.model = folder + "/" + kModelCopy;
  if (folder.empty() || !std::filesystem::exists(s.model))
    throw ValueError("train",
                     "the parameters are those of a model file; say which one with --model FILE.json");
}

std::string model_file_text(const TrainSettings& s) {
  return s.model_text ? *s.model_text : read_file(s.model);
}

std::optional<std::int64_t> batch_of_model(const TrainSettings& s) {
  return batch_of_file(model_file_text(s), s.model);
}

void record_module(TrainSettings& s, const Task& task) {
  init_all_states(*s.module, s.batch);
  const Array example = zeros({s.batch, task.spec().num_inputs}, s.dtype);
  s.model_text =
      std::make_shared<const std::string>(write_model(trace_step(*s.module, example, "module").model));
  s.module = nullptr;
}

std::vector<std::string> read_layers(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& [key, value] : read_config(path)) {
    if (key != "layer")
      throw ValueError("config", fmt::format("'{}': a model has [[layer]] alone, not {}; `etrace train "
                                             "--config` takes whole configurations",
                                             path, key));
    out.push_back(value);
  }
  if (out.empty()) throw ValueError("config", fmt::format("'{}' has no [[layer]]", path));
  return out;
}

ReadyModel model_of(const TrainSettings& s, const Task& task) {
  return model_for(s, task.spec().num_inputs, task.spec().num_outputs, memory_of(s, task),
                   input_rms(task, s.batch));
}

ReadyModel model_for(const TrainSettings& s, std::int64_t inputs, std::int64_t outputs, double memory,
                     double rms) {
  ModelOptions options{
      .batch = s.batch, .dtype = s.dtype, .seed = s.seed, .memory = memory, .input_rms = rms};
  if (!s.layers.empty()) {
    options.sizes = {inputs, outputs};
    return layered_model(s.layers, options);
  }
  if (is_model_file(s.model))
    return model_of_file(model_file_text(s), s.model,
                         {.inputs = inputs, .outputs = outputs, .batch = s.batch, .dtype = s.dtype});
  const BuiltinModel* model = find_builtin_model(s.model);
  if (model == nullptr)
    throw ValueError("train",
                     fmt::format("there is no built-in model '{}'{}; --model takes one of {}, a model file "
                                 "(FILE.json), or layers (FILE.toml, or --layer)",
                                 s.model, did_you_mean(s.model, row_names(builtin_models())),
                                 fmt::join(row_names(builtin_models()), ", ")));
  options.sizes = sizes_of(s, *model, inputs, outputs);
  return make_model(s.model, options);
}

std::string sizes_text(const TrainSettings& s, const Task& task) {
  const BuiltinModel* model = s.layers.empty() ? find_builtin_model(s.model) : nullptr;
  if (model == nullptr) return fmt::format("{}-{}", task.spec().num_inputs, task.spec().num_outputs);
  return fmt::format("{}",
                     fmt::join(sizes_of(s, *model, task.spec().num_inputs, task.spec().num_outputs), "-"));
}

std::string model_text(const TrainSettings& s, const Task& task) {
  const std::string what =
      !s.layers.empty() ? fmt::format("of layers {}", fmt::join(s.layers, "; ")) : s.model;
  return fmt::format("model {} {} in {}", what, sizes_text(s, task), short_name(s.dtype));
}

}  // namespace etrace::train
