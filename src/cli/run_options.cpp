// Options to settings; see the header.
#include "cli/run_options.h"

#include <fmt/format.h>

#include "base/nearest.h"
#include "cli/help.h"
#include "cli/option_values.h"
#include "data/catalog.h"
#include "data/reader.h"
#include "etrace/error.h"
#include "etrace/layered.h"
#include "module/parameter_file.h"
#include "train/run_model.h"
#include "train/saved_parameters.h"

namespace etrace::cli {

namespace {

// NAME=VALUE as it was typed.
std::pair<std::string, std::string> task_option(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw ValueError("train", fmt::format("--set {}: expected NAME=NUMBER, as in --set lag=10", text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

void RunOptions::add_to(CLI::App& verb, const char* load_doc) {
  verb_ = &verb;
  TrainSettings& s = settings;
  verb.option_defaults()->take_last();  // a script's defaults come first
  verb.add_option("TASK", s.task,
                  fmt::format("one of {}; or a file, a folder or a data set that `etrace data` lists",
                              fmt::join(task_names(), ", ")));
  verb.add_option(
          "--model", s.model,
          "a built-in model, see below (default: the task's); a model file, FILE.json; or layers, FILE.toml")
      ->type_name("NAME");
  verb.add_option("--layer", s.layers,
                  "a layer of a model of one's own, as in type=LIF,size=128; may be repeated, see below")
      ->type_name("type=NAME,…")
      ->allow_extra_args(false)
      ->take_all();
  verb.add_option("--set", set, "a setting of the task, see below; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->take_all();
  verb.add_option("--hidden", s.hidden, "size of every hidden layer (default: the task's)")
      ->type_name("N")
      ->check(count_from(1));
  verb.add_option("--batch", s.batch, "samples per batch (default: the task's)")
      ->type_name("N")
      ->check(count_from(1));
  verb.add_option("--seed", s.seed, "of the parameters and of the data")
      ->type_name("N")
      ->check(seed_number())
      ->capture_default_str();
  verb.add_option("--dtype", dtype, "f32 or f64")->type_name("TYPE")->capture_default_str();
  verb.add_option("--load", load, load_doc)->type_name("FILE");
}

std::optional<TensorFile> RunOptions::loaded() const {
  return load.empty() ? std::nullopt : std::optional(read_parameter_file(load));
}

TrainSettings RunOptions::complete(const std::optional<TensorFile>& file, Adopt adopt) const {
  TrainSettings s = settings;
  std::string type = dtype;
  std::vector<std::pair<std::string, std::string>> options;
  for (const std::string& text : set) options.push_back(task_option(text));
  if (file) {
    const SavedSettings saved(*file, load);
    const auto typed = [&](const char* option) { return verb_->count(option) > 0; };
    if (!typed("--model") && !typed("--layer")) {
      std::string words;
      saved.text("--model", words);
      if (!words.empty())
        take_model_words(words, load.ends_with("/best.safetensors") ? load.substr(0, load.rfind('/')) : "",
                         s);
    }
    if (!typed("--hidden")) saved.number("--hidden", s.hidden);
    if (!typed("--dtype")) saved.text("--dtype", type);
    if (adopt == Adopt::ModelAndTask) {
      if (s.task.empty()) saved.text("task", s.task);
      if (const std::string* task = saved.find("task"); task != nullptr && *task == s.task)
        saved.task_options(options);
      if (!typed("--batch")) saved.number("--batch", s.batch);
      if (!typed("--seed")) saved.number("--seed", s.seed);
      double memory = -1.0;
      saved.number("--memory", memory);
      if (memory >= 0.0) s.memory = memory;
      s.expected = saved.expected();
    }
  }
  if (s.task.empty())
    throw ValueError("train",
                     fmt::format("TASK is missing; expected one of {}", fmt::join(task_names(), ", ")));
  take_data(s);
  if (s.model.ends_with(".toml")) {
    s.layers = read_layers(s.model);
    s.model.clear();
  }
  if (!s.layers.empty() && !s.model.empty() && s.model != kLayers)
    throw ValueError("train", fmt::format("--model {} and --layer: a run has one model", s.model));
  for (const auto& [name, value] : options) set_task_option(s, name, value);
  s.dtype = dtype_option("--dtype", type, {Dtype::F32, Dtype::F64});
  return s;
}

UpdateEvery update_option(const std::string& text) {
  if (text == "sequence") return UpdateEvery::Sequence;
  return text == "window" ? UpdateEvery::Window : UpdateEvery::Step;
}

Dtype dtype_option(const char* option, const std::string& text, std::initializer_list<Dtype> allowed) {
  const std::optional<Dtype> found = dtype_from_name(text);
  std::vector<std::string> names;
  for (const Dtype d : allowed) {
    if (found == d) return d;
    names.emplace_back(short_name(d));
  }
  throw ValueError("train", fmt::format("{} {}: expected one of {}{}", option, text, fmt::join(names, ", "),
                                        did_you_mean(text, names)));
}

namespace {
std::string recipe_text(const TaskRecipe& r) {
  std::string rule = r.rule;
  for (const std::string& option : r.rule_options) rule += " " + option;
  return fmt::format("--model {} --rule {}, hidden {}, batch {}, {} updates at {}", r.model, rule, r.hidden,
                     r.batch, r.updates, r.learning_rate);
}
}  // namespace

std::string task_table() {
  std::string text = "Tasks, what each is learned with unless told otherwise, and what --set can change:\n";
  for (const TaskEntry* t : tasks()) {
    text += wrapped(fmt::format("  {}:", t->name), 4, t->doc);
    for (const TaskRecipe& r : t->recipes) text += wrapped("    learned by", 17, recipe_text(r));
    for (const TaskSetting& s : t->settings)
      text += wrapped(fmt::format("    {}", s.name), 17, fmt::format("{} (default {:.10g})", s.doc, s.value));
    for (const TaskText& s : t->texts) text += wrapped(fmt::format("    {}", s.name), 17, s.doc);
  }
  return text;
}

std::string model_table() {
  std::string text = help_table("Models, whose sizes follow the task", builtin_models());
  text += "\nLayers of a model of one's own, [[layer]] in a TOML file or --layer, and their options:\n";
  for (const nn::LayerType& t : nn::layer_types()) {
    std::vector<std::string> options;
    for (const nn::LayerOption& o : t.options) options.push_back(fmt::format("{}: {}", o.name, o.doc));
    text += wrapped(fmt::format("  {}:", t.name), 4,
                    options.empty() ? t.doc : fmt::format("{}. {}", t.doc, fmt::join(options, "; ")));
  }
  return text;
}

}  // namespace etrace::cli
