// What a run writes and reads again: configuration, status, checkpoints, parameters.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <ctime>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/file.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "io/json.h"
#include "train/arrays.h"
#include "train/logged_curves.h"
#include "train/run.h"
#include "train/run_model.h"
#include "train/saved_parameters.h"

namespace etrace::train {

namespace {

std::string date_text() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

std::string method_text(VjpMethod method) { return std::string(name(method)); }

std::string update_word(UpdateEvery update) {
  if (update == UpdateEvery::Sequence) return "sequence";
  return update == UpdateEvery::Window ? "window" : "step";
}

OrderedJson score_json(const Score& score) {
  OrderedJson out{{"loss", score.loss}};
  if (score.accuracy) out["accuracy"] = *score.accuracy;
  return out;
}

OrderedJson activity_json(const std::vector<LayerActivity>& layers) {
  auto out = OrderedJson::array();
  for (const LayerActivity& l : layers)
    out.push_back({{"layer", l.layer},
                   {"units", l.units},
                   {"rate", l.rate},
                   {"silent", l.silent},
                   {"saturated", l.saturated}});
  return out;
}

OrderedJson fidelity_json(const Training::Fidelity& f) {
  OrderedJson out{{"cosine", f.cosine}, {"norm_ratio", f.norm_ratio}};
  out["parameters"] = OrderedJson::array();
  for (const Training::Fidelity::Leaf& l : f.leaves)
    out["parameters"].push_back({{"name", l.name}, {"cosine", l.cosine}, {"norm_ratio", l.norm_ratio}});
  return out;
}

OrderedJson weights_json(const std::vector<WeightSpread>& weights) {
  auto out = OrderedJson::array();
  for (const WeightSpread& w : weights)
    out.push_back({{"name", w.name},
                   {"low", w.spread.low},
                   {"high", w.spread.high},
                   {"mean", w.spread.mean},
                   {"deviation", w.spread.deviation},
                   {"shares", w.spread.shares}});
  return out;
}
// What run.json says of the start; none: it is not as a run writes it. JSON has no NaN: it is null there.
std::optional<std::vector<WeightSpread>> weights_from(const Json& json) {
  std::vector<WeightSpread> out;
  for (const Json& w : json) {
    const auto name = said<std::string>(w, "/name");
    const auto low = said<double>(w, "/low"), high = said<double>(w, "/high"),
               mean = said<double>(w, "/mean"), deviation = said<double>(w, "/deviation");
    const auto shares = said<std::vector<double>>(w, "/shares");
    if (!name || !low || !high || !mean || !deviation || !shares) return std::nullopt;
    out.push_back(
        {*name, {.low = *low, .high = *high, .mean = *mean, .deviation = *deviation, .shares = *shares}});
  }
  return json.is_array() ? std::optional(out) : std::nullopt;
}
std::optional<Training::Fidelity> fidelity_from(const Json& json) {
  const auto number = [](const Json& of, const char* key) {
    return said<double>(of, key).value_or(std::numeric_limits<double>::quiet_NaN());
  };
  Training::Fidelity out{number(json, "/cosine"), number(json, "/norm_ratio"), {}};
  const Json* leaves = json_member(json, "/parameters");
  if (leaves == nullptr || !leaves->is_array()) return std::nullopt;
  for (const Json& l : *leaves) {
    const auto name = said<std::string>(l, "/name");
    if (!name) return std::nullopt;
    out.leaves.push_back({*name, number(l, "/cosine"), number(l, "/norm_ratio")});
  }
  return out;
}

rusage used() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}
std::int64_t peak_memory_bytes() { return std::int64_t{1024} * used().ru_maxrss; }
// Of this process; what was used before a run was resumed is added by its file.
double processor_seconds() {
  const rusage usage = used();
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What run.json of an earlier process says; null where there is none, or it cannot be read.
std::shared_ptr<const Json> earlier_status(const std::string& path) {
  try {
    std::optional<Json> json = json_of(read_file(path));
    return json && json->is_object() ? std::make_shared<const Json>(std::move(*json)) : nullptr;
  } catch (const IoError&) {
    return nullptr;
  }
}

const std::string* find_note(const Learner::Notes& notes, std::string_view key) {
  for (const auto& [name, value] : notes)
    if (name == key) return &value;
  return nullptr;
}
template <class Number>
std::optional<Number> number_note(const Learner::Notes& notes, std::string_view key) {
  const std::string* text = find_note(notes, key);
  Number value{};
  if (text == nullptr) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || stop != text->data() + text->size()) return std::nullopt;
  return value;
}

constexpr const char *kBestBatches = "best batches", *kBestLoss = "best loss",
                     *kBestAccuracy = "best accuracy", *kSinceBest = "checks since best";

}  // namespace

ConfigItems config_items(const TrainSettings& s, const RunPlan& plan) {
  ConfigItems out{{"task", s.task}, {"model", s.model}, {"rule", s.rule}};
  const auto add = [&](const char* key, const auto& value) { out.emplace_back(key, fmt::to_string(value)); };
  add("hidden", s.hidden);
  add("batch", s.batch);
  add("updates", s.updates);
  add("seed", s.seed);
  if (s.window != 0) add("window", s.window);
  if (s.method) out.emplace_back("method", method_text(*s.method));
  out.emplace_back("update", update_word(s.update));
  out.emplace_back("optimizer", s.optimizer);
  if (s.learning_rate) add("lr", *s.learning_rate);
  out.emplace_back("schedule", s.schedule);
  if (s.warmup > 0) add("warmup", s.warmup);
  add("clip-norm", s.clip_norm.value_or(0.0));
  if (s.memory) add("memory", *s.memory);
  out.emplace_back("dtype", std::string(short_name(s.dtype)));
  out.emplace_back("backend", s.backend);
  add("every", plan.every);
  add("check-every", plan.check_every);
  if (plan.patience > 0) add("patience", plan.patience);
  if (plan.until_accuracy) add("until-accuracy", *plan.until_accuracy);
  if (!plan.load.empty()) out.emplace_back("load", plan.load);
  if (!plan.fidelity) out.emplace_back("no-fidelity", "true");
  std::string file;
  for (const auto& [name, value] : s.task_texts)
    if (name == "file") file = value;
  for (const auto& [key, value] : data_texts(s)) {
    const bool is_file = s.task == "data" && key == "--set file";  // the others say what is in it
    if (key.starts_with("--set "))
      out.emplace_back("set", fmt::format("{}={}", key.substr(6), is_file ? file : value));
  }
  for (const std::string& option : s.rule_options) out.emplace_back("rule-option", option);
  for (const std::string& layer : s.layers) out.emplace_back("layer", layer);
  return out;
}

void Run::open_folder() {
  started_ = date_text();
  if (!plan_.folder.empty())
    folder_ = RunFolder::open(plan_.folder);
  else if (!plan_.runs.empty()) {
    const TrainSettings& s = training_.settings();
    const std::string given = plan_.runs + "/" + plan_.name;
    const bool go_on =
        plan_.resume && !plan_.name.empty() && (RunFolder::is_run(given) || RunFolder::is_begun(given));
    folder_ = go_on ? RunFolder::open(given, RunFolder::Also::Begun)
                    : RunFolder::create(
                          plan_.runs,
                          plan_.name.empty()
                              ? fmt::format("{}-{}-{}-{}", s.task, short_model_name(s.model), s.rule, s.seed)
                              : plan_.name,
                          plan_.name.empty());
  }
  if (!folder_) return;
  result_.folder = folder_->path();
  // Of a run that no command began: the one that begins it again.
  if (plan_.command.empty() && !training_.settings().own_task)
    plan_.command = {"train", "--config=" + folder_->file("config.toml")};
  if (plan_.resume && std::filesystem::exists(folder_->checkpoint())) take_earlier();
  if (checkpoint_.empty()) checkpoint_ = folder_->checkpoint();
}

// What was measured before the first batch of a run that goes on.
void Run::take_earlier() {
  earlier_ = earlier_status(folder_->file("run.json"));
  if (!earlier_) return;
  const auto take = [&](const char* way, auto&& from, auto& to) {
    const Json* there = json_member(*earlier_, way);
    if (there == nullptr) return;
    auto found = from(*there);
    if (found)
      to = std::move(*found);
    else
      view_.warn(fmt::format("'{}' is not as a run writes it, so what it says of the start is left out: {}",
                             folder_->file("run.json"), way));
  };
  take("/fidelity/start", fidelity_from, first_fidelity_);
  take("/weights/start", weights_from, first_weights_);
}

// Of a model file and of series in memory, so that the folder needs nothing else.
void Run::keep_copies(TrainSettings& s) {
  if (is_model_file(s.model)) {
    const std::string copy = folder_->file(kModelCopy);
    if (s.model_text || s.model != copy) write_file(copy, model_file_text(s));
    s.model = copy;
    s.model_text = nullptr;
  }
  if (s.data_text) {
    const std::string copy = folder_->file(kDataCopy);
    write_file(copy, *s.data_text);
    s.data_text = nullptr;
    s.task_texts.emplace_back("file", copy);
  }
}

void Run::write_config() {
  TrainSettings s = training_.settings();
  keep_copies(s);
  write_file(folder_->file("config.toml"), config_text(config_items(s, plan_)));
}

void Run::go_on() {
  const Learner::Notes notes = training_.resume(checkpoint_, plan_.new_rate);
  const auto batches = number_note<std::int64_t>(notes, kBestBatches);
  const auto loss = number_note<double>(notes, kBestLoss);
  if (!batches || !loss) return;
  best_ = Score{*loss, number_note<double>(notes, kBestAccuracy)};
  best_batches_ = *batches;
  checks_since_best_ = number_note<std::int64_t>(notes, kSinceBest).value_or(0);
}

Learner::Notes Run::best_notes() const {
  if (!best_) return {};
  Learner::Notes out{{kBestBatches, std::to_string(best_batches_)},
                     {kBestLoss, fmt::to_string(best_->loss)},
                     {kSinceBest, std::to_string(checks_since_best_)}};
  if (best_->accuracy) out.emplace_back(kBestAccuracy, fmt::to_string(*best_->accuracy));
  return out;
}

void Run::tell(const std::function<void()>& write) {
  try {
    write();
  } catch (const IoError& e) {
    view_.warn(e.message() + " The run goes on without it");
    log_failed_ = true;
    log_ = TrainLog();
    events_ = EventFile();
  }
}

void Run::write_checkpoint(const char* what_follows) {
  if (checkpoint_.empty()) return;
  try {
    training_.save(checkpoint_, best_notes());
    checkpoint_failed_ = false;
  } catch (const IoError& e) {
    view_.warn(fmt::format("no checkpoint after {}: {}{}", progress_text(), e.message(), what_follows));
    checkpoint_failed_ = true;
  }
}

void Run::write_parameters() {
  if (plan_.save.empty()) return;
  try {
    save_with_settings(training_.module(), training_.parameter_texts(), plan_.save);
  } catch (const IoError& e) {
    view_.warn(fmt::format("the parameters are not saved: {}", e.message()));
    save_failed_ = true;
  }
}

void Run::write_best(const Score&) {
  if (!folder_) return;
  try {
    SettingTexts texts = training_.parameter_texts();
    texts.emplace_back(kBestBatches, std::to_string(best_batches_));
    save_with_settings(training_.module(), texts, folder_->best());
  } catch (const IoError& e) {
    view_.warn(fmt::format("the best parameters are not saved: {}", e.message()));
    save_failed_ = true;
  }
}

// The final score is that of the parameters which stay in the folder. A run without checks keeps its last
// ones.
void Run::take_best() {
  if (!folder_) return;
  if (!best_) {
    best_batches_ = training_.batches();
    write_best(last_);
    return;
  }
  if (save_failed_) return;
  const TensorFile file = load_safetensors(folder_->best());
  take_parameters(training_.module(), file, folder_->best());
  view_.say(fmt::format("best on the checks: after {} batches\n", best_batches_));
}

void Run::write_status(const std::string& status, const std::string& error) {
  if (!folder_) return;
  const TrainSettings& s = training_.settings();
  OrderedJson json{{"format", "etrace.run"}, {"version", 1},        {"name", folder_->name()},
                   {"status", status},       {"task", s.task},      {"model", s.model},
                   {"rule", s.rule},         {"seed", s.seed},      {"updates", training_.updates()},
                   {"of", s.updates},        {"started", started_}, {"seconds", seconds()}};
  if (status != "running") {
    json["ended"] = date_text();
    json["reason"] = name(result_.reason);
  }
  if (!error.empty()) json["error"] = error;
  json["batches"] = training_.batches();
  if (best_) {
    json["best"] = score_json(*best_);
    json["best"]["batches"] = best_batches_;
  }
  if (result_.judgement) {
    json["final"] = score_json(result_.score);
    json["outcome"] = name(result_.judgement->outcome);
    json["guess"] = score_json(result_.judgement->guess);
    json["goal"] = result_.judgement->goal;
  }
  json["trace_bytes"] = training_.trace_bytes();
  json["peak_memory_bytes"] = peak_memory_bytes();
  json["processor_seconds"] = processor_seconds();
  if (first_fidelity_) json["fidelity"]["start"] = fidelity_json(*first_fidelity_);
  if (last_fidelity_) json["fidelity"]["end"] = fidelity_json(*last_fidelity_);
  if (!first_weights_.empty()) json["weights"]["start"] = weights_json(first_weights_);
  if (!last_weights_.empty()) json["weights"]["end"] = weights_json(last_weights_);
  json["activity"] = {{"start", activity_json(first_activity_)}, {"end", activity_json(last_activity_)}};
  json["command"] = plan_.command;
  for (const auto& [key, value] : training_.setting_texts()) json["settings"][key] = value;
  json["data"] = training_.task().about();
  json["program"] = {{"version", std::string(version())},
                     {"backend", s.backend},
                     {"process", getpid()},
                     {"processors", std::thread::hardware_concurrency()}};
  tell([&] { write_file(folder_->file("run.json"), json_text(json, 2) + "\n"); });
}

}  // namespace etrace::train
