// One run of `etrace train`: learning with progress, a log, checkpoints, checks and a final score. A file
// that cannot be written costs no result: the run goes on, says so, and ends with a status that tells.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "etrace/save.h"
#include "train/train_log.h"
#include "train/training.h"

namespace etrace::cli {

using namespace train;  // NOLINT: the verbs are about runs

// What a run does beside learning.
struct TrainPlan {
  std::int64_t updates = 1000;
  std::int64_t every = 100;  // updates between checkpoints
  std::optional<double> until_accuracy = {};
  std::string checkpoint, save, json;  // files; empty: none
  bool resume = false, quiet = false;
  std::optional<TensorFile> start_from = {};  // parameters, of the file --load names
  std::string load = {};
};

class TrainRun {
 public:
  TrainRun(const TrainPlan&, const TrainSettings&);
  int operator()();  // the exit status

 private:
  std::ostream& out() const;  // what is for people; standard output, unless the log goes there
  void say(const std::string& text) const;
  void warn(const std::string& text);
  std::string progress_text() const;

  void start();
  void batch();
  bool is_place_of_check() const;
  Score check();  // also says whether it is solved

  // Each goes on if a file cannot be written, and remembers.
  void log(const std::function<void(TrainLog&)>& lines);
  void write_checkpoint(const char* what_follows);
  void write_parameters();

  int finish();
  int interrupted(const Interrupt&);

  const TrainPlan& plan_;
  Training training_;
  TrainLog log_;
  std::optional<Progress> progress_;  // from the first batch on
  Score last_;                        // of the last batch
  bool solved_ = false;
  bool checkpoint_failed_ = false, save_failed_ = false, log_failed_ = false;
};

}  // namespace etrace::cli
