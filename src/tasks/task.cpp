// The table of tasks, checks of what is asked of them, and accuracy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/nearest.h"
#include "core/number_text.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"
#include "ops/class_label.h"

namespace etrace {

namespace {

using Table = std::map<std::string, TaskEntry, std::less<>>;
Table& table() {
  static Table rows;
  return rows;
}

std::string number(double x) {  // 1000000, not 1e+06
  const bool whole = x == std::floor(x) && std::abs(x) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(x)) : number_text(x);
}

double checked(const TaskEntry& task, const TaskSetting& s, double value) {
  const bool fits = value >= s.low && value <= s.high && (!s.whole || value == std::floor(value));
  if (!fits)
    throw ValueError(
        "tasks",
        fmt::format("the setting {} of the task {} is {}; expected a {}number from {} to {}", s.name,
                    task.name, number(value), s.whole ? "whole " : "", number(s.low), number(s.high)));
  return value;
}

[[noreturn]] void refuse_setting(const TaskEntry& task, const std::string& name) {
  std::vector<std::string> known = row_names(task.settings), texts = row_names(task.texts);
  const auto holds = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (holds(known) || holds(texts))
    throw TypeError("tasks", fmt::format("the setting {0} of the task {1}: {0} is {2}", name, task.name,
                                         holds(known) ? "a number, not a text" : "a text, not a number"));
  known.insert(known.end(), texts.begin(), texts.end());
  throw ValueError("tasks", fmt::format("the task {} has no setting '{}'{}; expected one of {}", task.name,
                                        name, did_you_mean(name, known), fmt::join(known, ", ")));
}

// The position of the row of that name.
template <class Rows>
std::size_t position(const TaskEntry& task, const Rows& rows, const std::string& name) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name) return i;
  refuse_setting(task, name);
}

// Every setting of the task in its order, with the given values in place of its own.
TaskOptions completed(const TaskEntry& task, const TaskOptions& given) {
  TaskOptions complete{{}, given.seed, given.dtype, {}};
  for (const TaskSetting& s : task.settings) complete.settings.emplace_back(s.name, s.value);
  for (const TaskText& t : task.texts) complete.texts.emplace_back(t.name, t.value);
  for (const auto& [name, value] : given.settings) {
    const std::size_t i = position(task, task.settings, name);
    complete.settings[i].second = checked(task, task.settings[i], value);
  }
  for (const auto& [name, text] : given.texts) complete.texts[position(task, task.texts, name)].second = text;
  return complete;
}

Array batch_key(std::uint64_t seed, std::uint64_t index) {
  Array key = random::key(seed);
  for (const std::uint64_t word : {index >> 32U, index & 0xffffffffU})
    key = random::fold_in(key, full({}, static_cast<std::int64_t>(word), Dtype::U32));
  return key;
}

// What a task of one's own may get wrong.
void require_batch(const Task& task, const TaskBatch& b, std::int64_t size) {
  const Task::Spec& s = task.spec();
  const auto require = [&](const char* what, const Array& a, Dtype dtype, const Shape& shape) {
    if (a.defined() && a.dtype() == dtype && a.shape() == shape) return;
    throw ValueError(
        "tasks", fmt::format("the task {} gives {} {}; expected {}", s.name, what,
                             a.defined() ? to_string(a.aval()) : "nothing", to_string(Aval{dtype, shape})));
  };
  require("inputs", b.inputs, s.dtype, Shape{s.steps, size, s.num_inputs});
  if (s.loss == "cross_entropy")
    require("targets", b.targets, Dtype::I32, Shape{s.steps, size});
  else
    require("targets", b.targets, s.dtype, Shape{s.steps, size, s.num_outputs});
  require("a mask", b.mask, s.dtype, Shape{s.steps});
  if (task.has_padding()) require("active samples", b.active, s.dtype, Shape{s.steps, size});
}

}  // namespace

Task::~Task() = default;

Part part_of(std::uint64_t index) {
  if (index >= kFirstFinalBatch) return Part::Final;
  return index >= kFirstCheckBatch ? Part::Check : Part::Train;
}

std::uint64_t first_batch(Part part) {
  if (part == Part::Train) return 0;
  return part == Part::Check ? kFirstCheckBatch : kFirstFinalBatch;
}

TaskBatch Task::batch(std::uint64_t index, std::int64_t batch_size) const {
  if (batch_size < 1)
    throw ValueError("tasks", fmt::format("a batch of {} samples of the task {}; expected at least 1",
                                          batch_size, spec_.name));
  const Part part = part_of(index);
  TaskBatch out =
      draw({batch_key(spec_.seed, spec_.frozen ? 0 : index), part, index - first_batch(part), batch_size});
  require_batch(*this, out, batch_size);
  return out;
}

RegisterTask::RegisterTask(TaskEntry row) {
  std::string name = row.name;
  if (!table().emplace(name, std::move(row)).second)
    throw ValueError("tasks", fmt::format("there is a task {} already", name));
}

std::vector<const TaskEntry*> tasks() {
  std::vector<const TaskEntry*> rows;
  for (const auto& [name, row] : table()) rows.push_back(&row);
  return rows;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskEntry* row : tasks()) names.push_back(row->name);
  return names;
}

const TaskEntry* find_task(std::string_view name) {
  const auto at = table().find(name);
  return at == table().end() ? nullptr : &at->second;
}

TaskRecipe recipe_of(const TaskEntry& task, std::string_view model) {
  if (model.empty()) return task.recipes.front();
  for (const TaskRecipe& r : task.recipes)
    if (r.model == model) return r;
  TaskRecipe other = task.recipes.front();
  other.model = model;
  other.rule = "D_RTRL";
  other.rule_options = {};
  return other;
}

namespace {
const TaskEntry& required_row(std::string_view name) {
  const TaskEntry* entry = find_task(name);
  if (entry == nullptr) throw ValueError("tasks", no_such_name("task", name, task_names()));
  return *entry;
}
}  // namespace

TaskOptions complete_options(std::string_view name, const TaskOptions& given) {
  if (!is_floating(given.dtype) || size_of(given.dtype) < 4)
    throw TypeError("tasks",
                    "a task in " + std::string(etrace::name(given.dtype)) + "; expected float32 or float64");
  return completed(required_row(name), given);
}

std::unique_ptr<Task> make_task(std::string_view name, const TaskOptions& options) {
  return required_row(name).make(complete_options(name, options));
}

double setting(const TaskOptions& complete, std::string_view name) {
  for (const auto& [key, value] : complete.settings)
    if (key == name) return value;
  throw InternalError("tasks", "the setting '" + std::string(name) + "' is not in the task's table");
}

const std::string& text_setting(const TaskOptions& complete, std::string_view name) {
  for (const auto& [key, value] : complete.texts)
    if (key == name) return value;
  throw InternalError("tasks", fmt::format("the text '{}' is not in the task's table", name));
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
  const std::int64_t counted = batch.samples.value_or(labels[1]);
  const double scored = sum(batch.mask).item<double>() * static_cast<double>(counted);
  if (scored == 0.0) throw ValueError("tasks", "the mask of the batch scores no step");
  const auto of_counted = [&](const Array& a) { return slice_axis(a, 1, 0, counted); };
  const Array steps = broadcast_in_dim(batch.mask, Shape{labels[0], counted}, {0});
  const Array targets = class_labels("tasks", of_counted(batch.targets), outputs.dim(2), steps);
  const Array right = convert(equal_to(argmax(of_counted(outputs)), targets), batch.mask.dtype());
  return sum(sum(right, {1}) * batch.mask).item<double>() / scored;
}

}  // namespace etrace
