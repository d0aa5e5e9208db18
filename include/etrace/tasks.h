// Tasks to learn: seeded streams of batches. Batch `index` of a task is a pure function of its options, the
// index and the batch size, so a run that was stopped goes on where it was.
//
//   const auto task = make_task("copying", {.settings = {{"lag", 20}}, .seed = 1});
//   const TaskBatch batch = task->batch(0, 32);
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace {

struct TaskBatch {
  Array inputs;   // [steps, batch, num_inputs]
  Array targets;  // loss "cross_entropy": labels i32[steps, batch]; "mse": [steps, batch, num_outputs]
  Array mask;     // [steps], 1 where a step is scored, else 0; targets of other steps are 0
};

class Task {
 public:
  struct Spec {
    std::string_view name;
    std::int64_t num_inputs = 0, num_outputs = 0, steps = 0;
    std::string_view loss = "cross_entropy";
    std::uint64_t seed = 0;
    Dtype dtype = Dtype::F32;  // of inputs, mask and numbers to be met
  };
  explicit Task(const Spec& spec) : spec_(spec) {}
  virtual ~Task();

  const Spec& spec() const { return spec_; }
  TaskBatch batch(std::uint64_t index, std::int64_t batch_size) const;  // ValueError for a size below 1

 private:
  virtual TaskBatch draw(const Array& key, std::int64_t batch_size) const = 0;
  Spec spec_;
};

// A number that may be set, between bounds that are allowed themselves.
struct TaskSetting {
  std::string_view name;
  double value, low, high;
  bool whole;
  std::string_view doc;
};

struct TaskOptions {
  std::vector<std::pair<std::string, double>> settings = {};  // others keep the task's own values
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::F32;
};

struct TaskEntry {
  std::string_view name;
  std::string_view doc;  // one line
  std::vector<TaskSetting> settings;
  std::unique_ptr<Task> (*make)(const TaskOptions&);  // options complete: every setting, in the order above
};
std::span<const TaskEntry> tasks();                 // names ascending
const TaskEntry* find_task(std::string_view name);  // null if there is none
// ValueError lists the names of tasks or settings, or says the bounds.
std::unique_ptr<Task> make_task(std::string_view name, const TaskOptions& = {});

// The part of scored steps and samples in which the largest of outputs [steps, batch, classes] is that of the
// label. ValueError where the shapes disagree, the targets are no labels, a label that is scored names no
// class or no step is scored.
double accuracy(const Array& outputs, const TaskBatch&);

}  // namespace etrace
#pragma GCC visibility pop
