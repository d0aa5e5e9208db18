// A training run: a task, a built-in model that fits it, a learning rule and an optimiser. What `etrace
// train`, `etrace eval` and `etrace demo` share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etrace/learner.h"
#include "train/evaluator.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// What the numbers of a run depend on.
struct TrainSettings {
  std::string task;
  std::vector<std::pair<std::string, double>> task_settings = {};
  std::string model = "gru", rule = "d_rtrl", optimizer = "adam";
  std::int64_t hidden = 64;  // of every hidden layer
  std::int64_t batch = 32;
  std::optional<double> learning_rate = {};  // none: the optimiser's own
  std::optional<double> clip_norm = 1.0;
  UpdateEvery update = UpdateEvery::Sequence;
  std::optional<VjpMethod> method = {};  // none: windows, or single steps where every step updates
  std::int64_t window = 0;               // steps of a window; 0: kDefaultWindow
  std::uint64_t seed = 0;
  std::shared_ptr<const LearningRule> rule_made = {};  // with its options
  Dtype dtype = Dtype::F32;
  std::string backend = default_backend();  // no number depends on it
};

// Steps of the windows that reverse mode runs through; docs/choosing-a-rule.md says why so many.
inline constexpr std::int64_t kDefaultWindow = 8;

// How a run learns, from its settings, its rule and the length of its sequences.
struct LearningWay {
  VjpMethod method = VjpMethod::SingleStep;
  std::int64_t window = 1;  // steps: of multi-step, and between updates of UpdateEvery::Window
};
LearningWay learning_way(const TrainSettings&, const LearningRule&, std::int64_t steps);

// Batches of a task by number. Training counts its own from 0; those for checks on the way and for the final
// score are out of its reach, and differ, so that stopping at a good check does not flatter the result.
inline constexpr std::uint64_t kFirstCheckBatch = std::uint64_t{1} << 62U;
inline constexpr std::uint64_t kFirstFinalBatch = std::uint64_t{1} << 63U;

// The parts that evaluating needs, too. ValueError, TypeError … in the words of the command line.
std::unique_ptr<Task> task_of(const TrainSettings&);
ReadyModel model_of(const TrainSettings&, const Task&);
std::string task_text(const TrainSettings&, const Task&);   // two lines
std::string model_text(const TrainSettings&, const Task&);  // "model gru 10-64-10 in f32"
std::string sizes_text(const TrainSettings&, const Task&);  // "10-64-10", of the model's layers
// The settings that task, data and model depend on, under the names of the command line's options.
Learner::Notes data_texts(const TrainSettings&);

class Training {
 public:
  explicit Training(const TrainSettings&);

  // The next batch: states and traces start at zero, the parameters move. The score is from before each move.
  Score learn();
  // On batches that learn() never sees, without a change of parameters.
  enum class Fresh : std::uint8_t { Check, Final };
  Score score(Fresh, std::int64_t batches);
  bool has_accuracy() const { return train::has_accuracy(*task_); }

  std::int64_t batches() const { return batches_; }                       // learned from so far
  std::int64_t updates() const { return batches_ * updates_per_batch_; }  // of the parameters
  std::int64_t updates_per_batch() const { return updates_per_batch_; }

  // What is learned online, what is not and why, trace memory; a few lines.
  std::string summary() const;
  std::int64_t trace_bytes() const;
  const Learner& learner() const { return *learner_; }
  const LearningWay& way() const { return way_; }
  Module& module() { return *ready_.module; }
  const TrainSettings& settings() const { return settings_; }
  const Task& task() const { return *task_; }
  // The settings under the names of the command line's options, complete.
  const Learner::Notes& setting_texts() const { return texts_; }

  // All that it runs, each program once: those of learning, then those of scores.
  LearnerPlan programs(Learner::PlanForm = Learner::PlanForm::AsCompiled) const;
  std::vector<Program> compiled() const;  // what it has compiled until now

  void save(const std::string& checkpoint) const;
  // Goes on where the checkpoint was made. ValueError names the settings that differ; then nothing changes.
  void resume(const std::string& checkpoint);

 private:
  TrainOptions train_options(const Array& mask) const;
  Learner::Notes complete_texts() const;
  std::string learned_text() const;

  TrainSettings settings_;
  std::unique_ptr<Task> task_;
  ReadyModel ready_;
  LearningWay way_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Evaluator> evaluator_;
  StepFunction step_;
  Learner::Notes texts_;
  std::int64_t batches_ = 0, updates_per_batch_ = 1;
};

}  // namespace etrace::train
#pragma GCC visibility pop
