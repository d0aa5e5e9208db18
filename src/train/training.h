// A training run: a task, a model that fits it, a learning rule and an optimiser. What `etrace
// train`, `etrace eval` and `etrace demo` share. What settings leave open is as the task's recipe has it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etrace/learner.h"
#include "etrace/train.h"
#include "train/activity.h"
#include "train/batch_ahead.h"
#include "train/evaluator.h"
#include "train/judge.h"
#include "train/whole_sequence.h"

#pragma GCC visibility push(default)
namespace etrace::train {

inline constexpr std::string_view kLayers = "layers";
// Whether the model is a file, and its name without folder and ending.
bool is_model_file(const std::string& model);
std::string short_model_name(const std::string& model);

// Steps of the windows that reverse mode runs through; docs/choosing-a-rule.md says why so many.
inline constexpr std::int64_t kDefaultWindow = 8;

// The row of the task; one of its own for a task that is no row.
TaskEntry task_row(const TrainSettings&);
// A file, a folder or a known data set in the place of the task is the task `data`.
void take_data(TrainSettings&);
// With everything that was left open; series in memory are a file then. ValueError if there is no such task.
TrainSettings resolved(TrainSettings);
// Sets a number or a text of the task. ValueError: a text where a number is wanted.
void set_task_option(TrainSettings&, const std::string& name, const std::string& value);

// How a run learns, from its settings, its rule and the length of its sequences.
struct LearningWay {
  VjpMethod method = VjpMethod::SingleStep;
  std::int64_t window = 1;  // steps: of multi-step, and between updates of UpdateEvery::Window
};
LearningWay learning_way(const TrainSettings&, const LearningRule&, std::int64_t steps);

// How many batches a score needs: all of a part that ends.
std::int64_t score_batches(const Task&, Part, std::int64_t batch_size, std::int64_t otherwise);

// The parts that evaluating needs, too, from settings that are resolved. ValueError, TypeError … in the words
// of the command line.
std::shared_ptr<const Task> task_of(const TrainSettings&);
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
  // On batches that learn() never sees, without a change of parameters. `batches`: of a part that never ends;
  // others are scored whole.
  Score score(Part, std::int64_t batches);
  std::int64_t score_batches(Part part, std::int64_t otherwise) const {
    return train::score_batches(*task_, part, settings_.batch, otherwise);
  }
  Judgement judged(const Score& final_score, std::int64_t batches) const;
  // The gradient of the rule beside that of BPTT, on a batch that is not trained on, with the parameters of
  // the moment.
  struct Fidelity {
    double cosine = 1.0, norm_ratio = 1.0;  // of all parameters together; NaN where there is no gradient
    struct Leaf {
      std::string name;
      double cosine = 1.0, norm_ratio = 1.0;
    };
    std::vector<Leaf> leaves;
  };
  Fidelity fidelity();
  // How often spiking layers fire on a batch that is not trained on; empty: the model has none.
  std::vector<LayerActivity> activity();
  // What hidden states and spiking neurons do in the first samples of that batch.
  std::vector<SeenActivity> seen_activity(std::int64_t samples);
  bool has_accuracy() const { return train::has_accuracy(*task_); }

  std::int64_t batches() const { return batches_; }                       // learned from so far
  std::int64_t updates() const { return batches_ * updates_per_batch_; }  // of the parameters
  std::int64_t updates_per_batch() const { return updates_per_batch_; }

  // What is learned online, what is not and why, trace memory; a few lines.
  std::string summary() const;
  std::int64_t trace_bytes() const;
  const Learner& learner() const { return *learner_; }
  const LearningWay& way() const { return way_; }
  bool is_bptt() const;
  Module& module() { return *ready_.module; }
  const TrainSettings& settings() const { return settings_; }
  const Task& task() const { return *task_; }
  // The settings under the names of the command line's options, complete.
  const Learner::Notes& setting_texts() const { return texts_; }

  // All that it runs, each program once: those of learning, then those of scores.
  LearnerPlan programs(Learner::PlanForm = Learner::PlanForm::AsCompiled) const;
  std::vector<Program> compiled() const;  // what it has compiled until now

  // The same with the sizes of the model's layers: what files of parameters say of their run.
  Learner::Notes parameter_texts() const;

  void save(const std::string& checkpoint, const Learner::Notes& more = {}) const;
  // Goes on where the checkpoint was made, and returns its notes. ValueError names the settings that differ;
  // then nothing changes. `new_rate`: the learning rate and its schedule may be others, which count
  // from now on.
  Learner::Notes resume(const std::string& checkpoint, bool new_rate = false);

 private:
  TrainOptions train_options(const TaskBatch&) const;
  Learner::Notes complete_texts() const;
  std::string learned_text() const;
  std::string rule_description() const;
  double highest_rate() const;
  Score learn_whole(const TaskBatch&);
  WholeSequence& whole_sequence();

  TrainSettings settings_;
  std::shared_ptr<const Task> task_;
  std::unique_ptr<BatchAhead> ahead_;  // none: batches are made when they are needed
  ReadyModel ready_;
  LearningWay way_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<ActivityWatch> watch_;
  StepFunction step_;
  std::unique_ptr<WholeSequence> whole_;  // from its first use on
  Learner::Notes texts_;
  std::int64_t batches_ = 0, updates_per_batch_ = 1;
};

}  // namespace etrace::train
#pragma GCC visibility pop
