// Tasks to learn: streams of batches. Batch `index` of a task is a pure function of its options, the index
// and the batch size, so a run that was stopped goes on where it was.
//
//   const auto task = make_task("copying", {.settings = {{"lag", 20}}, .seed = 1});
//   const TaskBatch batch = task->batch(0, 32);
//
// A task of one's own is a class derived from Task and a row, a RegisterTask: command line, help and tests
// read the rows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace {

// Batches by number. Training counts its own from 0; those for checks on the way and for the final score are
// out of its reach, and differ, so that stopping at a good check does not flatter the result. Tasks over data
// take them from parts of the data that have no sample in common.
inline constexpr std::uint64_t kFirstCheckBatch = std::uint64_t{1} << 62U;
inline constexpr std::uint64_t kFirstFinalBatch = std::uint64_t{1} << 63U;
enum class Part : std::uint8_t { Train, Check, Final };
Part part_of(std::uint64_t batch_index);
std::uint64_t first_batch(Part);

struct TaskBatch {
  Array inputs;   // [steps, batch, num_inputs]
  Array targets;  // loss "cross_entropy": labels i32[steps, batch]; "mse": [steps, batch, num_outputs]
  Array mask;     // [steps], 1 where a step is scored, else 0; targets of other steps are 0
  // [steps, batch], 0 where a sample has no step yet and stands still; undefined: all have every step. The
  // last step of a series is always the last one of the batch.
  Array active = {};
  // The first so many samples count; the others fill the last batch of a part that ends. None: all.
  std::optional<std::int64_t> samples = {};
};

class Task {
 public:
  struct Spec {
    std::string name;
    std::int64_t num_inputs = 0, num_outputs = 0, steps = 0;
    std::string_view loss = "cross_entropy";
    std::uint64_t seed = 0;
    Dtype dtype = Dtype::F32;  // of inputs, mask and numbers to be met
    // What the outputs stand for, one name each; empty: numbers.
    std::vector<std::string> classes = {};
    bool frozen = false;  // every batch is the same, whatever its number
  };
  explicit Task(Spec spec) : spec_(std::move(spec)) {}
  virtual ~Task();

  const Spec& spec() const { return spec_; }
  TaskBatch batch(std::uint64_t index, std::int64_t batch_size) const;  // ValueError for a size below 1
  // How many samples a part has; none: it never ends.
  virtual std::optional<std::int64_t> samples(Part) const { return std::nullopt; }
  // Whether batches say which steps samples have (TaskBatch::active): always, or never.
  virtual bool has_padding() const { return false; }
  // Lines about the data behind the task, for people; empty where it is drawn at random.
  virtual std::string about() const { return {}; }
  // What is needed to ask a trained model about new data, by name: classes, normalisation. Kept with
  // parameters.
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }

 protected:
  struct Draw {
    Array key;            // of this batch alone
    Part part;            // what the batch is for
    std::uint64_t index;  // from the first of its part
    std::int64_t size;    // samples
  };

 private:
  virtual TaskBatch draw(const Draw&) const = 0;
  Spec spec_;
};

// A number that may be set, between bounds that are allowed themselves.
struct TaskSetting {
  std::string name;
  double value, low, high;
  bool whole;
  std::string doc;
};
// A text that may be set.
struct TaskText {
  std::string name, value, doc;
};

struct TaskOptions {
  std::vector<std::pair<std::string, double>> settings = {};  // others keep the task's own values
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::F32;
  std::vector<std::pair<std::string, std::string>> texts = {};
};

// How a model learns the task: what a run takes unless it is told otherwise.
struct TaskRecipe {
  std::string model = "gru", rule = "D_RTRL";
  std::vector<std::string> rule_options = {};  // "decay_or_rank=0.95"
  std::int64_t hidden = 64, batch = 32;
  std::int64_t window = 0;  // steps; 0: the usual
  double learning_rate = 3e-3;
  std::int64_t updates = 1000;
  std::optional<double> memory = {};  // ModelOptions::memory; none: the length of the sequences
  std::string schedule = "constant";  // of the learning rate: "constant", or "cosine" down to a fiftieth
};

struct TaskEntry {
  std::string name;
  std::string doc;  // one line
  std::vector<TaskSetting> settings;
  // Options complete: every setting, in the order above.
  std::function<std::unique_ptr<Task>(const TaskOptions&)> make;
  // The first is what the task is learned with by default; the others where --model names their model. They
  // solve it, with the task's own settings.
  std::vector<TaskRecipe> recipes = {TaskRecipe{}};
  // The accuracy from which on the task is solved or, where there are no labels, the loss as a part of that
  // of the best constant answer.
  double solved = 0.95;
  std::vector<TaskText> texts = {};
};
std::vector<const TaskEntry*> tasks();  // names ascending
std::vector<std::string> task_names();
const TaskEntry* find_task(std::string_view name);  // null if there is none
// The recipe for a model (empty: the first). A model without one gets the first one's numbers and D_RTRL.
TaskRecipe recipe_of(const TaskEntry&, std::string_view model = {});
// ValueError lists the names of tasks or settings, or says the bounds.
std::unique_ptr<Task> make_task(std::string_view name, const TaskOptions& = {});

// A task adds its row while the program starts: `const RegisterTask row({...});` at namespace scope.
// ValueError if the name is taken.
struct RegisterTask {
  explicit RegisterTask(TaskEntry);
};

// Every setting of the row in its order, with the given values in place of its own. ValueError as make_task.
TaskOptions complete_options(std::string_view name, const TaskOptions& given);

// For tasks that are being made: a value of complete options. InternalError if the row has no such setting.
double setting(const TaskOptions& complete, std::string_view name);
std::int64_t whole_setting(const TaskOptions& complete, std::string_view name);
const std::string& text_setting(const TaskOptions& complete, std::string_view name);
// [steps]: 1 in the last `scored` steps, else 0.
Array last_steps(std::int64_t steps, std::int64_t scored, Dtype);

// The part of scored steps and samples in which the largest of outputs [steps, batch, classes] is that of the
// label. ValueError where the shapes disagree, the targets are no labels, a label that is scored names no
// class or no step is scored.
double accuracy(const Array& outputs, const TaskBatch&);

}  // namespace etrace
#pragma GCC visibility pop
