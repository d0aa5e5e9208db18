#include "cli/model_choice.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/nearest.h"
#include "cli/option_values.h"
#include "etrace/error.h"
#include "module/parameter_file.h"
#include "train/run_model.h"
#include "train/saved_parameters.h"

namespace etrace::cli {

namespace {

std::string model_names() { return fmt::format("{}", fmt::join(row_names(builtin_models()), ", ")); }

Model model_in_file(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw IoError("model", fmt::format("'{}' is neither a file nor a built-in model{}; built in are: {}",
                                       path, did_you_mean(path, row_names(builtin_models())), model_names()));
  return read_model_file(path);
}

std::optional<TensorFile> loaded_file(const ModelChoice& c) {
  return c.load.empty() ? std::nullopt : std::optional(read_parameter_file(c.load));
}

// The folder of a run stands for its model with the best parameters.
ModelChoice without_folder(const ModelChoice& c) {
  if (!std::filesystem::is_directory(c.model)) return c;
  const std::filesystem::path best = std::filesystem::path(c.model) / "best.safetensors";
  if (!std::filesystem::exists(best))
    throw IoError("model",
                  fmt::format("'{}' is a folder without best.safetensors; expected the folder of a run, "
                              "a model file or a built-in model: {}",
                              c.model, model_names()));
  ModelChoice out = c;
  if (out.load.empty()) out.load = best.string();
  const TensorFile file = read_parameter_file(best.string());
  const std::string source = best.string();
  std::string words;
  train::SavedSettings(file, source).text("--model", words);
  if (words.empty())
    throw IoError("model", fmt::format("'{}' does not say which model its parameters are of", source));
  train::TrainSettings settings;
  train::take_model_words(words, c.model, settings);
  out.model = settings.model;
  out.layers = settings.layers;
  return out;
}

// Of the sizes that were given, or that the file of --load says.
ReadyModel made(const ModelChoice& c, const std::optional<TensorFile>& loaded) {
  ModelOptions options{.sizes = c.sizes, .batch = c.batch, .dtype = c.own_dtype, .seed = c.seed};
  if (!c.dtype.empty()) options.dtype = *dtype_from_name(c.dtype);
  if (loaded && c.sizes.empty()) train::SavedSettings(*loaded, c.load).sizes(options.sizes);
  return c.layers.empty() ? etrace::make_model(c.model, options) : train::layered_model(c.layers, options);
}

}  // namespace

std::optional<ReadyModel> ModelChoice::builtin() const {
  if (std::filesystem::is_directory(model)) return without_folder(*this).builtin();
  if (layers.empty() && find_builtin_model(model) == nullptr) {
    if (!dtype.empty() || batch || !sizes.empty())
      throw ValueError(
          stage, "--sizes, --batch and --dtype are for built-in models; a model file has its own types");
    return std::nullopt;
  }
  return made(*this, loaded_file(*this));
}

Model ModelChoice::make_model() const {
  if (std::filesystem::is_directory(model)) return without_folder(*this).make_model();
  Model out;
  if (const std::optional<ReadyModel> ready = builtin()) {
    out = trace_step(*ready->module, ready->example, model).model;
    out.source = "built in";
  } else {
    out = model_in_file(model);
  }
  if (const std::optional<TensorFile> file = loaded_file(*this)) train::take_parameters(out, *file, load);
  return out;
}

void ModelChoice::add_model_options(CLI::App& verb) {
  verb.add_option("MODEL", model, "a model file, the folder of a run, or a built-in model: " + model_names())
      ->required();
  verb.add_option("--sizes", sizes,
                  "of a built-in model: features of input, hidden layers, output, as in 3,8,2")
      ->type_name("N,N,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(std::int64_t{1}, kMostOfARun));
  verb.add_option("--batch", batch, "samples of a built-in model (default: one, without a batch axis)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, kMostOfARun));
  verb.add_option("--dtype", dtype,
                  fmt::format("of a built-in model: f32 or f64 (default: {})", short_name(own_dtype)))
      ->type_name("TYPE")
      ->check(one_of({"f32", "f64"}));
  verb.add_option("--seed", seed, "of the parameters, and of random sequences (default: 0)")
      ->type_name("N")
      ->check(seed_number());
  verb.add_option(
          "--load", load,
          "take the parameters from FILE.safetensors or FILE.npz; a file that `etrace train --save` wrote "
          "says the sizes of a built-in model, too")
      ->type_name("FILE");
}

}  // namespace etrace::cli
