// The programs of a learner, for `plan`, `profile` and `explain`.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/model_choice.h"
#include "cli/rule_option.h"
#include "etrace/plan.h"
#include "etrace/trace_passes.h"

namespace etrace::cli {

// Slices for a loss of the first result: one per argument, then its target. ValueError if there is no result.
Avals slices_of(const Model&);
// A model, a rule and the forms that its programs are made for, as verbs take them.
struct PlanArguments : ModelChoice {
  explicit PlanArguments(std::string verb) : ModelChoice(std::move(verb), Dtype::F32) {}

  std::string loss = "mse", optimizer = "adam", method = "single-step";
  RuleArguments rule;
  std::optional<std::int64_t> window;
  std::vector<TracePassWish> trace_passes;

  void add_to(CLI::App& verb);
};
struct Planned {
  Model model;
  ExecutionChoice execution;
  LearnerPlan plan;  // as recorded
};
Planned planned(const PlanArguments&);

nlohmann::json program_json(const Program&, bool equations);
// Every program of D_RTRL on this graph with the squared error, ports alone; empty if nothing is learned
// online.
nlohmann::json programs_of(const ETraceGraph&);

}  // namespace etrace::cli
