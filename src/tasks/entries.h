// The rows of the table of tasks, one per file, and what these files share.
#pragma once

#include "etrace/tasks.h"

namespace etrace {

TaskEntry copying_entry();
TaskEntry delayed_match_entry();
TaskEntry delayed_match_von_mises_entry();
TaskEntry integrator_entry();

double setting(const TaskOptions& complete, std::string_view name);
std::int64_t whole_setting(const TaskOptions& complete, std::string_view name);

// [steps]: 1 in the last `scored` steps, else 0.
Array last_steps(std::int64_t steps, std::int64_t scored, Dtype);

}  // namespace etrace
