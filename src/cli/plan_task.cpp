// etrace plan TASK: the programs that `etrace train TASK` compiles with the same options.
#include <fmt/format.h>

#include "cli/help.h"
#include "cli/option_values.h"
#include "cli/plan.h"
#include "cli/run_options.h"
#include "etrace/error.h"
#include "train/rule_text.h"
#include "train/training.h"

namespace etrace::cli {

void TaskArguments::add_to(CLI::App& verb) {
  verb_ = &verb;
  const std::string group = "For a TASK, as `etrace train` takes them";
  verb.add_option("--model", model, "a built-in model, whose sizes follow the task (default: the task's)")
      ->type_name("NAME")
      ->group(group);
  verb.add_option("--hidden", hidden, "size of every hidden layer (default: the task's)")
      ->type_name("N")
      ->check(count_from(1))
      ->group(group);
  verb.add_option("--set", set, "a setting of the task; may be repeated")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false)
      ->take_all()
      ->group(group);
  verb.add_option("--update", update, "update after each sequence, window or step")
      ->type_name("WHEN")
      ->check(one_of({"sequence", "window", "step"}))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--clip-norm", clip_norm,
                  "limit of the gradient's norm; 0: none (default: 1 for a TASK, none for a MODEL)")
      ->type_name("X")
      ->check(number_at_least(0))
      ->group(group);
}

std::optional<double> TaskArguments::clip_norm_given() const {
  return verb_ == nullptr || verb_->count("--clip-norm") == 0 || clip_norm == 0.0 ? std::nullopt
                                                                                  : std::optional(clip_norm);
}

bool PlanArguments::is_task() const { return find_task(model) != nullptr; }

void Planned::keep(const std::string& name) {
  for (LearnerPlan* plan : {&recorded, &compiled}) plan->programs = {plan->at(name)};
}

Planned planned_training(const PlanArguments& o) {
  for (const char* option : {"--sizes", "--loss", "--load", "--trace-pass"})
    if (o.task.verb_->count(option) > 0)
      throw ValueError(o.stage, fmt::format("{} is for a MODEL, and {} is a task", option, o.model));
  RunOptions run;
  run.settings.task = o.model;
  run.settings.model = o.task.model;
  run.settings.hidden = o.task.hidden;
  run.settings.seed = o.seed;
  if (o.batch) run.settings.batch = *o.batch;
  if (!o.dtype.empty()) run.dtype = o.dtype;
  run.set = o.task.set;
  TrainSettings s = run.complete({}, RunOptions::Adopt::Model);
  if (o.task.verb_->count("--rule") > 0) s.rule = o.rule.rule;
  s.rule_options = o.rule.option_texts();
  s.optimizer = o.optimizer;
  s.clip_norm = o.task.clip_norm == 0.0 ? std::nullopt : std::optional(o.task.clip_norm);
  s.update = update_option(o.task.update);
  s.method = o.method;
  s.window = o.window.value_or(0);
  s.backend = "interpreter";  // nothing runs
  s = resolved(s);
  require_modulator(o.stage.c_str(), *rule_from(s.rule, s.rule_options));
  const Training training(s);
  return {training.learner().graph().module_info.model, training.summary() + "\n",
          training.programs(Learner::PlanForm::AsRecorded), training.programs()};
}

}  // namespace etrace::cli
