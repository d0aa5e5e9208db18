// Several runs at once, each a process of its own: what `etrace train --compare` and `etrace bench-accuracy`
// share. A run that is done already is taken as it is, one that was cut off goes on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"

#pragma GCC visibility push(default)
namespace etrace::train {

struct RunJob {
  std::string name;                // of the run and its folder
  std::vector<std::string> words;  // behind `etrace train`, without --runs and --name
};
struct RunOutcome {
  std::optional<Json> run;  // run.json; none: it failed, or never began
  std::string error;        // what a run that failed said last
  bool kept = false;        // it was there already
};

struct ManyRuns {
  std::string program;            // whose verb is `train`
  std::string folder;             // of the runs
  std::int64_t at_once = 1;       // processes
  std::int64_t threads_each = 1;  // that a process computes with
  // Called in the order in which they end.
  std::function<void(std::size_t job, const RunOutcome&)> on_end = {};
  std::function<bool()> stop_requested = {};

  // The first run of the folder that was made by other words than its job's; empty: none.
  std::string made_otherwise(const std::vector<RunJob>&) const;
  // One per job. Those that were not begun or were cut off because of a stop have neither a run nor an error.
  // IoError: a process cannot be started.
  std::vector<RunOutcome> operator()(const std::vector<RunJob>&) const;
};

// Of a program that ManyRuns has started: it ends with its starter, however that ends. False: that has
// happened.
bool keep_with_starter();
// Where this program lies, for ManyRuns::program.
std::string own_program();
// How many processes the machine has room for.
std::int64_t processors();

// Runs that differ in their seed alone, as one row.
struct RunGroup {
  struct Number {
    double mean = 0.0, spread = 0.0;  // standard deviation of the sample; 0 of one run
    std::int64_t count = 0;
  };
  std::string name;  // "D_RTRL"
  Number accuracy, loss, updates, seconds, processor_seconds, memory, traces, cosine_start, cosine_end;
  std::vector<std::string> failures;
};
RunGroup group_of(std::string name, const std::vector<RunOutcome>&);
RunGroup::Number number_of(const std::vector<RunOutcome>&, const char* json_pointer);
OrderedJson to_json(const RunGroup&);
// A row each: score ± spread, updates, time, memory, cosine; of `first`, what the names are.
std::string groups_text(const std::vector<RunGroup>&, const std::string& first);

}  // namespace etrace::train
#pragma GCC visibility pop
