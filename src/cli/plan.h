// The programs of a learner, for `plan`, `profile` and `explain`.
#pragma once

#include "cli/model_choice.h"
#include "cli/rule_option.h"
#include "etrace/plan.h"
#include "etrace/trace_passes.h"
#include "io/json.h"

namespace etrace::cli {

struct PlanArguments;
struct Planned;

// Slices for a loss of the first result: one per argument, then its target. ValueError if there is no result.
Avals slices_of(const Model&);
// What `etrace train` takes besides: for a plan of a task in place of a model.
struct TaskArguments {
  std::string model, update = "sequence";
  std::vector<std::string> set;
  std::int64_t hidden = 0;
  double clip_norm = 1.0;

  void add_to(CLI::App& verb);
  std::optional<double> clip_norm_given() const;  // none: it was not typed, or is 0

 private:
  CLI::App* verb_ = nullptr;
  friend Planned planned_training(const PlanArguments&);
};

// A model, a rule and the forms that its programs are made for, as verbs take them.
struct PlanArguments : ModelChoice {
  explicit PlanArguments(std::string verb) : ModelChoice(std::move(verb), Dtype::F32) {}

  std::string loss = "mse", optimizer = "adam";
  std::optional<VjpMethod> method;  // none: single-step, or as a task has it
  RuleArguments rule;
  std::optional<std::int64_t> window;
  std::vector<TracePassWish> trace_passes;
  TaskArguments task;

  void add_to(CLI::App& verb);
  bool is_task() const;  // MODEL names a task
};
struct Planned {
  Model model;
  std::string text;                    // what holds for all programs
  LearnerPlan recorded, compiled;      // program by program the same
  void keep(const std::string& name);  // that one alone; ValueError lists the names
};
Planned planned(const PlanArguments&);
// What `etrace train` compiles with the same options. ValueError for options that a task does not take.
Planned planned_training(const PlanArguments&);

Json program_json(const Program&, bool equations);
// Every program of D_RTRL on this graph with the squared error, ports alone; empty if nothing is learned
// online.
Json programs_of(const ETraceGraph&);

}  // namespace etrace::cli
