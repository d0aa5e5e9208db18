// Runs as functions of the library; the run itself is in run.cpp.
#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "etrace/error.h"
#include "etrace/train.h"
#include "io/json.h"
#include "module/parameter_file.h"
#include "train/rule_text.h"
#include "train/run.h"
#include "train/run_model.h"
#include "train/saved_parameters.h"

namespace etrace::train {

namespace {

namespace fs = std::filesystem;

// What the file that a run starts from says of its model, where the settings do not.
void adopt(TrainSettings& s, RunPlan& plan) {
  if (plan.load.empty()) return;
  if (!plan.start_from) plan.start_from = read_parameter_file(plan.load);
  const SavedSettings saved(*plan.start_from, plan.load);
  const bool open = s.model.empty() && s.layers.empty() && !s.module && !s.model_text;
  std::string words;
  if (open) saved.text("--model", words);
  if (!words.empty())
    take_model_words(words,
                     fs::path(plan.load).filename() == "best.safetensors"
                         ? fs::path(plan.load).parent_path().string()
                         : "",
                     s);
  if (s.hidden == 0) saved.number("--hidden", s.hidden);
}

void require_sensible(const RunPlan& p) {
  if (p.until_accuracy && !(*p.until_accuracy > 0.0 && *p.until_accuracy <= 1.0))
    throw ValueError("train", fmt::format("until_accuracy is {}; it must lie in (0, 1]", *p.until_accuracy));
  if (p.every < 1 || p.check_every < 1 || p.patience < 0)
    throw ValueError("train",
                     fmt::format("every is {}, check_every {} and patience {}; expected numbers from 1, 1 "
                                 "and 0 on",
                                 p.every, p.check_every, p.patience));
  if (p.resume && p.checkpoint.empty() && p.folder.empty() && (p.name.empty() || p.runs.empty()))
    throw ValueError("train", "resume needs the run to go on with: its folder, its name, or a checkpoint");
  if (!p.resume && !p.checkpoint.empty() && fs::exists(p.checkpoint))
    throw ValueError("train", fmt::format("the checkpoint '{}' exists: resume goes on from it, or remove it",
                                          p.checkpoint));
  const std::string extension = fs::path(p.save).extension().string();
  if (!p.save.empty() && extension != ".safetensors" && extension != ".npz")
    throw ValueError("train",
                     fmt::format("save is '{}'; the name must end with .safetensors or .npz", p.save));
}

// With the model file of a module; its task is made once.
TrainSettings completed(const TrainSettings& given) {
  TrainSettings s = resolved(given);
  require_modulator("train", *rule_from(s.rule, s.rule_options));
  if (!s.module) return s;
  if (s.batch < 1) throw ValueError("train", fmt::format("batch is {}; it must be at least 1", s.batch));
  record_module(s, *task_of(s));
  return s;
}

// Parameters of a module of the program's own, from the run's model, whose parameters have the same names.
void give_back(Module& to, const Module& from) {
  set_parameters(to, parameter_file(from), "the trained model");
  reset_all_states(to);
}

// However it ends, a module of the program's own gets what was learned.
RunResult carried_out(Run& run, Module* module) {
  const auto give = [&] {
    if (module != nullptr) give_back(*module, run.training().module());
  };
  give();  // one that does not fit is refused before the work
  RunResult out;
  try {
    out = run();
  } catch (...) {
    give();
    throw;
  }
  give();
  return out;
}

RunConfig config_of(const std::string& folder, const ConfigItems& changes, const TrainSettings& own) {
  ConfigItems items = config_of_run(folder, own.own_task.get());
  RunFolder::require_no_stream(folder, "train");
  for (const auto& [name, value] : changes)
    if (name == "task" || name == "folder" || name == "runs" || name == "name" || name == "load")
      throw ValueError("train",
                       fmt::format("{} says which run it is, and '{}' is one already", name, folder));
  items.insert(items.end(), changes.begin(), changes.end());
  RunConfig out = run_config(items);
  if (own.own_task) {
    out.settings.own_task = own.own_task;
    out.settings.prefetch = own.prefetch;
  }
  if (own.arrays) out.settings.arrays = own.arrays;
  return out;
}

}  // namespace

RunResult run(const TrainSettings& given, const RunPlan& given_plan, RunView* given_view) {
  RunView silent;
  RunView& view = given_view != nullptr ? *given_view : silent;
  TrainSettings settings = given;
  RunPlan plan = given_plan;
  require_sensible(plan);
  adopt(settings, plan);
  const std::shared_ptr<Module> module = given.module;
  Run run(plan, completed(settings), view);
  return carried_out(run, module.get());
}

RunResult resume(const std::string& given, const ConfigItems& changes, RunView* given_view,
                 const TrainSettings& own) {
  RunView silent;
  std::string folder = given;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  RunConfig c = config_of(folder, changes, own);
  c.plan.folder = folder;
  c.plan.resume = true;
  c.plan.new_rate = std::any_of(changes.begin(), changes.end(), [](const auto& item) {
    return std::find(kRateOptions.begin(), kRateOptions.end(), item.first) != kRateOptions.end();
  });
  require_sensible(c.plan);
  Run run(c.plan, completed(c.settings), given_view != nullptr ? *given_view : silent);
  return carried_out(run, own.module.get());
}

Score evaluate(const std::string& folder, const EvaluateOptions& o) {
  if (o.batches < 1) throw ValueError("eval", fmt::format("batches are {}; expected at least 1", o.batches));
  TrainSettings s = resolved(config_of(folder, {}, o.own).settings);
  const std::string path = folder + "/best.safetensors";
  const TensorFile file = read_parameter_file(path);
  s.expected = SavedSettings(file, path).expected();
  const auto task = task_of(s);
  const ReadyModel model = model_of(s, *task);
  take_parameters(*model.module, file, path);
  const std::int64_t batches = score_batches(*task, o.part, s.batch, o.batches);
  return Evaluator(model, *task, o.backend)(first_batch(o.part), batches, s.batch);
}

std::vector<ListedRun> list_runs(const std::string& runs, std::vector<std::string>* problems) {
  std::vector<std::string> unread;
  std::vector<ListedRun> out;
  for (const FoundRun& run : find_runs(runs, unread)) out.push_back({run.path, json_text(*run.json)});
  if (problems != nullptr) *problems = unread;
  return out;
}

}  // namespace etrace::train
