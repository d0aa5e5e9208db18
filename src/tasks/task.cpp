// The table of tasks, checks of what is asked of them, and accuracy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "core/number_text.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "ops/class_label.h"
#include "tasks/entries.h"

namespace etrace {

namespace {

const std::vector<TaskEntry>& table() {
  static const std::vector<TaskEntry> rows{copying_entry(), delayed_match_entry(),
                                           delayed_match_von_mises_entry(), integrator_entry()};
  return rows;
}

std::string number(double x) {  // 1000000, not 1e+06
  const bool whole = x == std::floor(x) && std::abs(x) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(x)) : number_text(x);
}

double checked(const TaskEntry& task, const TaskSetting& s, double value) {
  const bool fits = value >= s.low && value <= s.high && (!s.whole || value == std::floor(value));
  if (!fits)
    throw ValueError("tasks", "the setting " + std::string(s.name) + " of the task " +
                                  std::string(task.name) + " is " + number(value) + "; expected a " +
                                  (s.whole ? "whole " : "") + "number from " + number(s.low) + " to " +
                                  number(s.high));
  return value;
}

// Every setting of the task in its order, with the given values in place of its own.
TaskOptions completed(const TaskEntry& task, const TaskOptions& given) {
  TaskOptions complete{{}, given.seed, given.dtype};
  for (const TaskSetting& s : task.settings) complete.settings.emplace_back(s.name, s.value);
  for (const auto& [name, value] : given.settings) {
    const auto is_it = [&, &wanted = name](const TaskSetting& s) { return s.name == wanted; };
    const auto at = std::find_if(task.settings.begin(), task.settings.end(), is_it);
    if (at == task.settings.end())
      throw ValueError("tasks", fmt::format("the task {} has no setting '{}'{}; expected one of {}",
                                            task.name, name, did_you_mean(name, row_names(task.settings)),
                                            fmt::join(row_names(task.settings), ", ")));
    const auto i = static_cast<std::size_t>(at - task.settings.begin());
    complete.settings[i].second = checked(task, *at, value);
  }
  return complete;
}

Array batch_key(std::uint64_t seed, std::uint64_t index) {
  Array key = random::key(seed);
  for (const std::uint64_t word : {index >> 32U, index & 0xffffffffU})
    key = random::fold_in(key, full({}, static_cast<std::int64_t>(word), Dtype::U32));
  return key;
}

}  // namespace

Task::~Task() = default;

TaskBatch Task::batch(std::uint64_t index, std::int64_t batch_size) const {
  if (batch_size < 1)
    throw ValueError("tasks", "a batch of " + std::to_string(batch_size) + " samples of the task " +
                                  std::string(spec_.name) + "; expected at least 1");
  return draw(batch_key(spec_.seed, index), batch_size);
}

std::span<const TaskEntry> tasks() { return table(); }

const TaskEntry* find_task(std::string_view name) {
  for (const TaskEntry& entry : table())
    if (entry.name == name) return &entry;
  return nullptr;
}

std::unique_ptr<Task> make_task(std::string_view name, const TaskOptions& options) {
  const TaskEntry* entry = find_task(name);
  if (entry == nullptr) throw ValueError("tasks", no_such_name("task", name, row_names(table())));
  if (!is_floating(options.dtype) || size_of(options.dtype) < 4)
    throw TypeError(
        "tasks", "a task in " + std::string(etrace::name(options.dtype)) + "; expected float32 or float64");
  return entry->make(completed(*entry, options));
}

double setting(const TaskOptions& complete, std::string_view name) {
  for (const auto& [key, value] : complete.settings)
    if (key == name) return value;
  throw InternalError("tasks", "the setting '" + std::string(name) + "' is not in the task's table");
}

std::int64_t whole_setting(const TaskOptions& complete, std::string_view name) {
  return static_cast<std::int64_t>(setting(complete, name));
}

Array last_steps(std::int64_t steps, std::int64_t scored, Dtype dtype) {
  return convert(arange(steps) >= full({}, steps - scored, Dtype::I32), dtype);
}

double accuracy(const Array& outputs, const TaskBatch& batch) {
  const Shape labels = batch.targets.shape();
  if (batch.targets.dtype() != Dtype::I32 || labels.rank() != 2)
    throw ValueError("tasks", "accuracy needs labels i32[steps,batch]; the targets are " +
                                  to_string(batch.targets.aval()));
  const bool fits = outputs.rank() == 3 && outputs.shape().without(2) == labels && outputs.dim(2) > 0;
  if (!fits)
    throw ValueError("tasks", "outputs " + to_string(outputs.aval()) + " for labels " +
                                  to_string(batch.targets.aval()) + "; expected [steps,batch,classes]");
  const double scored = sum(batch.mask).item<double>() * static_cast<double>(labels[1]);
  if (scored == 0.0) throw ValueError("tasks", "the mask of the batch scores no step");
  const Array weight = broadcast_in_dim(batch.mask, labels, {0});
  const Array targets = class_labels("tasks", batch.targets, outputs.dim(2), weight);
  const Array right = convert(equal_to(argmax(outputs), targets), batch.mask.dtype());
  return sum(sum(right, {1}) * batch.mask).item<double>() / scored;
}

}  // namespace etrace
