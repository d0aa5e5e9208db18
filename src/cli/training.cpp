// The run: making its parts fit, one batch, scores, checkpoints.
#include "cli/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/nearest.h"
#include "cli/load_model.h"
#include "compiler/explain_text.h"
#include "etrace/error.h"

namespace etrace::cli {

namespace {

constexpr const char* kBatches = "batches";

void require_at_least_one(const char* option, std::int64_t value) {
  if (value < 1) throw ValueError("train", fmt::format("{} is {}; it must be at least 1", option, value));
}

// Sizes of input and output from the task, of everything between from --hidden.
Dims sizes_of(const TrainSettings& s, const BuiltinModel& model, const Task::Spec& task) {
  Dims sizes(model.sizes.size(), s.hidden);
  sizes.front() = task.num_inputs;
  sizes.back() = task.num_outputs;
  return sizes;
}

std::unique_ptr<optim::Optimizer> optimizer_of(const TrainSettings& s, Module& model) {
  optim::MakeOptions options{.common = {.clip_norm = s.clip_norm}};
  if (s.learning_rate) options.learning_rate = *s.learning_rate;
  auto optimizer = optim::make(s.optimizer, options);
  optimizer->bind(model);
  return optimizer;
}

// The loss of a step, with the model's result for the accuracy.
StepFunction step_of(const Task::Spec& task) {
  const auto loss = loss::find(task.loss).function;
  return [loss](StepCall& model, ArraySpan slices) {
    const Array output = model(slices[0]);
    return LossAndAux{loss(output, slices[1]), {output}};
  };
}

std::int64_t steps_per_update(const TrainSettings& s, std::int64_t steps) {
  switch (s.update) {
    case UpdateEvery::Step:
      return 1;
    case UpdateEvery::Window:
      require_at_least_one("--window, the steps between updates,", s.window);
      return std::min(s.window, steps);
    case UpdateEvery::Sequence:
      break;
  }
  return steps;
}

std::string update_text(const TrainSettings& s) {
  switch (s.update) {
    case UpdateEvery::Step:
      return "step";
    case UpdateEvery::Window:
      return fmt::format("window of {}", s.window);
    case UpdateEvery::Sequence:
      break;
  }
  return "sequence";
}

const std::string* find(const Learner::Notes& notes, std::string_view key) {
  const auto it = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == key; });
  return it == notes.end() ? nullptr : &it->second;
}

// The notes of a checkpoint before a learner takes it over, which needs tensors that fit.
Learner::Notes notes_of(const TensorFile& file) {
  constexpr std::string_view kPrefix = "note.";
  Learner::Notes notes;
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(kPrefix)) notes.emplace_back(key.substr(kPrefix.size()), value);
  return notes;
}

std::int64_t batches_of(const Learner::Notes& notes, const std::string& path) {
  const std::string* text = find(notes, kBatches);
  std::int64_t n = -1;
  if (text != nullptr) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
    if (error != std::errc() || end != text->data() + text->size()) n = -1;
  }
  if (n < 0)
    throw ValueError("train",
                     fmt::format("'{}' does not say how many batches were learned: it is no checkpoint of "
                                 "`etrace train`",
                                 path));
  return n;
}

void require_same(const Learner::Notes& here, const Learner::Notes& there, const std::string& path) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : here) {
    const std::string* other = find(there, key);
    if (other == nullptr || *other != value)
      differences.push_back(
          fmt::format("{} is {} there and {} here", key, other == nullptr ? "not given" : *other, value));
  }
  if (!differences.empty())
    throw ValueError("train",
                     fmt::format("'{}' is the checkpoint of another run: {}. Resume with the same settings, "
                                 "or start anew with another --checkpoint",
                                 path, fmt::join(differences, "; ")));
}

}  // namespace

std::unique_ptr<Task> task_of(const TrainSettings& s) {
  return make_task(s.task, {.settings = s.task_settings, .seed = s.seed, .dtype = s.dtype});
}

ReadyModel model_of(const TrainSettings& s, const Task& task) {
  const BuiltinModel* model = find_builtin_model(s.model);
  if (model == nullptr)
    // LIMIT: a model file is neither trained nor scored from the command line: its sizes do not follow a
    // task.
    throw ValueError("train",
                     fmt::format("there is no built-in model '{}'{}; --model takes one of {}, whose "
                                 "sizes follow the task. A model of your own is trained from C++: "
                                 "see examples/05_train_copying.cpp",
                                 s.model, did_you_mean(s.model, row_names(builtin_models())), model_names()));
  return make_model(
      s.model,
      {.sizes = sizes_of(s, *model, task.spec()), .batch = s.batch, .dtype = s.dtype, .seed = s.seed});
}

Learner::Notes data_texts(const TrainSettings& s) {
  Learner::Notes out{{"task", s.task}};
  for (const TaskSetting& known : find_task(s.task)->settings) {
    double value = known.value;
    for (const auto& [name, given] : s.task_settings)
      if (name == known.name) value = given;
    out.emplace_back("--set " + std::string(known.name), fmt::to_string(value));
  }
  out.emplace_back("--seed", std::to_string(s.seed));
  out.emplace_back("--model", s.model);
  out.emplace_back("--hidden", std::to_string(s.hidden));
  out.emplace_back("--batch", std::to_string(s.batch));
  out.emplace_back("--dtype", std::string(short_name(s.dtype)));
  return out;
}

std::string task_text(const TrainSettings& s, const Task& task) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : data_texts(s))
    if (key.starts_with("--set ")) settings.push_back(key.substr(6) + " " + value);
  return fmt::format("task {}: {}\n  {}; sequences of {} steps\n", s.task, find_task(s.task)->doc,
                     fmt::join(settings, ", "), task.spec().steps);
}

std::string sizes_text(const TrainSettings& s, const Task& task) {
  return fmt::format("{}", fmt::join(sizes_of(s, *find_builtin_model(s.model), task.spec()), "-"));
}

std::string model_text(const TrainSettings& s, const Task& task) {
  return fmt::format("model {} {} in {}", s.model, sizes_text(s, task), short_name(s.dtype));
}

Training::Training(const TrainSettings& settings) : settings_(settings) {
  require_at_least_one("--hidden", settings.hidden);
  require_at_least_one("--batch", settings.batch);
  task_ = task_of(settings);
  const std::int64_t steps = task_->spec().steps, every = steps_per_update(settings, steps);
  updates_per_batch_ = (steps + every - 1) / every;
  const auto rule = settings.rule_made != nullptr ? settings.rule_made : make_rule(settings.rule);
  ready_ = model_of(settings, *task_);
  learner_ = std::make_unique<Learner>(
      compile(*ready_.module, *rule, ready_.example,
              {.batch_size = settings.batch, .seed = settings.seed, .backend = settings.backend}));
  optimizer_ = optimizer_of(settings, *ready_.module);
  evaluator_ = std::make_unique<Evaluator>(ready_, *task_, settings.backend);
  step_ = step_of(task_->spec());
  texts_ = complete_texts();
}

Score Training::learn() {
  const TaskBatch batch = task_->batch(static_cast<std::uint64_t>(batches_), settings_.batch);
  learner_->reset_state();
  learner_->reset_model_state();
  TrainOptions options;
  options.mask = batch.mask;
  options.update = settings_.update;
  options.window = settings_.window;
  const SequenceTraining r =
      learner_->etrace_train(Arrays{batch.inputs, batch.targets}, step_, *optimizer_, options);
  ++batches_;
  Score score{r.loss};
  if (has_accuracy()) score.accuracy = accuracy(r.aux[0], batch);
  return score;
}

Score Training::score(Fresh purpose, std::int64_t batches) {
  return (*evaluator_)(purpose == Fresh::Check ? kFirstCheckBatch : kFirstFinalBatch, batches,
                       settings_.batch);
}

std::int64_t Training::trace_bytes() const { return learner_->trace_bytes(); }

Learner::Notes Training::complete_texts() const {
  const TrainSettings& s = settings_;
  Learner::Notes out = data_texts(s);
  out.emplace_back("--rule", learner_->describe());
  out.emplace_back("--optimizer", std::string(optimizer_->name()));
  out.emplace_back("--lr", fmt::to_string(optimizer_->schedule().at(0)));
  out.emplace_back("--clip-norm", fmt::to_string(s.clip_norm.value_or(0.0)));
  out.emplace_back("--update", update_text(s));
  return out;
}

std::string Training::learned_text() const {
  const CompilationReport report = learner_->report();
  std::vector<StatePath> online;  // a weight with its bias is one parameter
  for (const auto& w : report.etrace_weights)
    if (std::find(online.begin(), online.end(), w.path) == online.end()) online.push_back(w.path);
  std::string text = fmt::format("  learned online, through time: {}\n", path_list(online));
  if (report.excluded_weights.empty()) return text;
  text += "  learned from the current step alone:\n";
  for (const auto& w : report.excluded_weights)
    text += fmt::format("    {}: {}\n", to_string(w.path), w.reason ? meaning(*w.reason) : kNoOperator);
  return text;
}

std::string Training::summary() const {
  const TrainSettings& s = settings_;
  std::string text = task_text(s, *task_);
  text += fmt::format("{}, rule {}, batches of {}\n", model_text(s, *task_), learner_->describe(), s.batch);
  text += learned_text();
  text += fmt::format("  traces: {}, whatever the length of the sequences\n", bytes_text(trace_bytes()));
  text += fmt::format("optimizer {}, learning rate {}{}, an update per {}\n", optimizer_->name(),
                      optimizer_->schedule().at(0),
                      s.clip_norm ? fmt::format(", gradients clipped to norm {}", *s.clip_norm) : "",
                      update_text(s));
  return text + engine_text(s.backend);
}

void Training::save(const std::string& checkpoint) const {
  Learner::Notes notes = texts_;
  notes.emplace_back(kBatches, std::to_string(batches_));
  learner_->save(checkpoint, optimizer_.get(), notes);
}

void Training::resume(const std::string& checkpoint) {
  const TensorFile file = load_checkpoint(checkpoint);
  const Learner::Notes notes = notes_of(file);
  const std::int64_t batches = batches_of(notes, checkpoint);
  require_same(texts_, notes, checkpoint);
  learner_->restore(file, optimizer_.get());
  batches_ = batches;
}

}  // namespace etrace::cli
