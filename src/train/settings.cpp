// What settings leave open, and what stands in the place of names: data, series in memory, tasks and models
// of one's own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/nearest.h"
#include "base/wrap.h"
#include "data/catalog.h"
#include "data/reader.h"
#include "etrace/error.h"
#include "etrace/layered.h"
#include "tasks/data_task.h"
#include "train/arrays.h"
#include "train/file_model.h"
#include "train/padding.h"
#include "train/rule_text.h"
#include "train/run_folder.h"
#include "train/run_model.h"
#include "train/training.h"

namespace etrace::train {

namespace {

// Objects in the place of names: what they are called, and that nothing is said twice.
void take_parts(TrainSettings& s) {
  if (s.own_task && (s.arrays || s.data_text))
    throw ValueError("train", "a task of one's own and arrays: a run learns one thing");
  if (s.own_task) {
    const Task::Spec& spec = s.own_task->spec();
    if (!s.task.empty() && s.task != spec.name)
      throw ValueError(
          "train",
          fmt::format("a task of one's own, {}, and the task {}: a run learns one thing", spec.name, s.task));
    if (spec.name.empty()) throw ValueError("train", "a task of one's own needs a name (Task::Spec::name)");
    if (find_task(spec.name) != nullptr)
      throw ValueError("train", fmt::format("there is a task {} already, with settings of its own; give its "
                                            "name and settings, or call the own one otherwise",
                                            spec.name));
    if (spec.dtype != s.dtype)
      throw ValueError("train",
                       fmt::format("the task {} is in {}, and the run in {}; say dtype {}", spec.name,
                                   short_name(spec.dtype), short_name(s.dtype), short_name(spec.dtype)));
    if (!s.task_settings.empty() || !s.task_texts.empty())
      throw ValueError("train", fmt::format("the task {} is one of the program's own and has its settings "
                                            "already; leave out set",
                                            spec.name));
    s.task = spec.name;
  }
  if (s.arrays) {
    if (!s.task.empty() && s.task != "data")
      throw ValueError("train", fmt::format("arrays and the task {}: a run learns one thing", s.task));
    s.data_text = std::make_shared<const std::string>(data_file_of(*s.arrays));
    s.arrays = nullptr;
  }
  if (s.data_text) {
    s.task = "data";
    std::erase_if(s.task_texts, [](const auto& t) { return t.first == "file"; });
    s.task_texts.emplace_back("file", kDataCopy);
  }
  if (s.module) {
    if (!s.layers.empty() || (!s.model.empty() && s.model != kOwnModel))
      throw ValueError("train", fmt::format("a module of one's own and the model {}: a run has one model",
                                            s.layers.empty() ? s.model : std::string(kLayers)));
    s.model = kOwnModel;
  }
  take_data(s);
}

}  // namespace

namespace {
[[noreturn]] void refuse_task(const std::string& name) {
  const std::vector<std::string> sets = row_names(data::known_data());
  std::vector<std::string> all = task_names();
  all.insert(all.end(), sets.begin(), sets.end());
  throw ValueError(
      "tasks",
      fmt::format("there is no task '{}'{}; expected one of {}; or a file or folder with "
                  "data, or a data set that `etrace data` knows: {}",
                  name, did_you_mean(name, all), fmt::join(task_names(), ", "), fmt::join(sets, ", ")));
}
}  // namespace

TaskEntry task_row(const TrainSettings& s) {
  if (const TaskEntry* row = find_task(s.task)) return *row;
  if (!s.own_task) refuse_task(s.task);
  TaskEntry own{.name = s.task, .doc = "a task of one's own"};
  if (!has_accuracy(*s.own_task)) own.solved = 0.1;
  return own;
}

void take_data(TrainSettings& s) {
  if (s.own_task || find_task(s.task) != nullptr) return;
  const bool is_data =
      data::find_known_data(s.task) != nullptr || data::is_folder(s.task) || data::is_file(s.task);
  if (!is_data) return;
  s.task_texts.emplace_back("file", s.task);
  s.task = "data";
}

namespace {
// How long gates keep at the start: as a known data set learns best, else as the recipe has it.
std::optional<double> memory_of(const TrainSettings& s, const TaskRecipe& recipe) {
  const data::KnownData* known = nullptr;
  for (const auto& [name, value] : s.task_texts)
    if (s.task == "data" && name == "file") known = data::find_known_data(value);
  return known != nullptr && known->memory > 0.0 && recipe.memory ? known->memory : recipe.memory;
}
}  // namespace

TrainSettings resolved(TrainSettings s) {
  take_parts(s);
  const TaskEntry task = task_row(s);
  if (s.model.ends_with(".toml") && s.layers.empty()) {
    s.layers = read_layers(s.model);
    s.model.clear();
  }
  if (!s.layers.empty()) s.model = kLayers;
  // The order of a layer's options says nothing, and configurations do not keep it.
  for (std::string& layer : s.layers) {
    nn::LayerWords words = nn::LayerWords::parse(layer);
    std::stable_sort(words.options.begin(), words.options.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    layer = words.to_string();
  }
  const TaskRecipe recipe = recipe_of(task, s.model);
  s.model = recipe.model;
  if (s.batch == 0 && is_model_file(s.model) && !s.module) s.batch = batch_of_model(s).value_or(0);
  // The rule's options of the recipe are for its rule, whoever named it.
  const bool asked = !s.rule.empty();
  s.rule = rule_name(asked ? s.rule : recipe.rule);
  const bool as_recipe = s.rule == rule_name(recipe.rule);
  if (as_recipe)
    s.rule_options.insert(s.rule_options.begin(), recipe.rule_options.begin(), recipe.rule_options.end());
  if (s.hidden == 0) s.hidden = recipe.hidden;
  if (s.batch == 0) s.batch = recipe.batch;
  if (s.updates == 0) s.updates = recipe.updates;
  if (s.window == 0 && s.update != UpdateEvery::Step && !s.method) s.window = recipe.window;
  if (!s.learning_rate && s.optimizer == "adam") s.learning_rate = recipe.learning_rate;
  if (!s.memory) s.memory = memory_of(s, recipe);
  if (s.schedule.empty()) s.schedule = s.optimizer == "adam" ? recipe.schedule : "constant";
  const auto is_padding = [](const auto& option) { return option.first == "padding"; };
  const auto texts = row_names(task.texts);
  if (std::find(texts.begin(), texts.end(), "padding") != texts.end() &&
      std::none_of(s.task_texts.begin(), s.task_texts.end(), is_padding))
    s.task_texts.emplace_back("padding",
                              freezes_samples(*rule_from(s.rule, s.rule_options)) ? "frozen" : "zeros");
  return s;
}

void set_task_option(TrainSettings& s, const std::string& name, const std::string& value) {
  const TaskEntry* task = find_task(s.task);
  const auto texts = task == nullptr ? std::vector<std::string>{} : row_names(task->texts);
  if (std::find(texts.begin(), texts.end(), name) != texts.end()) {
    s.task_texts.emplace_back(name, value);
    return;
  }
  double number = 0.0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || stop != value.data() + value.size())
    throw ValueError("train",
                     fmt::format("--set {}={}: expected NAME=NUMBER, as in --set lag=10", name, value));
  s.task_settings.emplace_back(name, number);
}

std::shared_ptr<const Task> task_of(const TrainSettings& s) {
  if (s.own_task) return s.own_task;
  const TaskOptions options{
      .settings = s.task_settings, .seed = s.seed, .dtype = s.dtype, .texts = s.task_texts};
  if (s.data_text) {
    std::shared_ptr<data::Dataset> arrays = data::read_npz_data(*s.data_text, "arrays", s.expected.get());
    if (s.expected && !s.expected->classes.empty()) data::take_classes(*arrays, s.expected->classes);
    return make_data_task(arrays, options);
  }
  if (s.expected && s.task == "data") return make_data_task(options, *s.expected);
  return make_task(s.task, options);
}

Learner::Notes data_texts(const TrainSettings& s) {
  Learner::Notes out{{"task", s.task}};
  const TaskEntry row = task_row(s);
  for (const TaskSetting& known : row.settings) {
    double value = known.value;
    for (const auto& [name, given] : s.task_settings)
      if (name == known.name) value = given;
    out.emplace_back("--set " + known.name, fmt::to_string(value));
  }
  for (const TaskText& known : row.texts) {
    std::string value = known.value;
    for (const auto& [name, given] : s.task_texts)
      if (name == known.name) value = given;
    if (s.task == "data" && known.name == "file") value = data_words(s, value);
    out.emplace_back("--set " + known.name, value);
  }
  out.emplace_back("--seed", std::to_string(s.seed));
  out.emplace_back("--model", model_words(s));
  out.emplace_back("--hidden", std::to_string(s.hidden));
  out.emplace_back("--batch", std::to_string(s.batch));
  out.emplace_back("--dtype", std::string(short_name(s.dtype)));
  return out;
}

std::string task_text(const TrainSettings& s, const Task& task) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : data_texts(s))
    if (key.starts_with("--set ") && !value.empty()) settings.push_back(key.substr(6) + " " + value);
  return fmt::format("task {}: {}\n  {}{}sequences of {} steps\n{}", s.task, task_row(s).doc,
                     fmt::join(settings, ", "), settings.empty() ? "" : "; ", task.spec().steps,
                     task.about());
}

}  // namespace etrace::train
