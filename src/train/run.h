// One run: learning with a log, checks on data that is held out, checkpoints, the best parameters, an early
// stop and a final score, in a folder. A file that cannot be written costs no result: the run goes on, says
// so, and its result tells.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "etrace/save.h"
#include "io/json.h"
#include "train/config.h"
#include "train/live_page.h"
#include "train/page_content.h"
#include "train/run_folder.h"
#include "train/tensorboard.h"
#include "train/train_log.h"
#include "train/training.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// The whole run as options of `etrace train`, every setting said; Training's settings are resolved.
ConfigItems config_items(const TrainSettings& resolved, const RunPlan&);

class Run {
 public:
  Run(const RunPlan&, const TrainSettings&, RunView&);
  ~Run();
  RunResult operator()();

  Training& training() { return training_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool has_page() const { return folder_.has_value() || live_ != nullptr; }
  bool checks() const { return plan_.until_accuracy || plan_.patience > 0 || folder_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  std::string progress_text() const;

  void start();
  void go_on();
  void open_folder();
  void write_config();
  void take_earlier();
  void keep_copies(TrainSettings&);
  void batch();
  bool is_place_of_check() const;
  Score check();
  void keep_point(std::vector<RunHistory::Point>&, const Score&);
  void keep_if_best(const Score&);
  void repeat_check();

  // Each goes on if a file cannot be written, and remembers.
  void tell(const std::function<void()>& write);
  void write_checkpoint(const char* what_follows);
  void write_parameters();
  void write_best(const Score&);
  void write_page(const std::string& lead, bool good);
  RunPage page_at_start() const;
  void show_model(RunPage&);
  std::string page_path() const { return folder_ ? folder_->file("page.html") : std::string(); }
  void open_live();
  void show_point(std::size_t curve, const Score&);
  void show_state();
  void write_status(const std::string& status, const std::string& error = {});

  void take_best();
  void finish();
  void conclude();
  void measure_start();
  void say_other_columns();
  void interrupted();
  Learner::Notes best_notes() const;

  RunPlan plan_;
  RunView& view_;
  Training training_;
  std::optional<RunFolder> folder_;
  std::string checkpoint_;  // empty: none is kept
  TrainLog log_;
  EventFile events_;
  std::unique_ptr<LivePage> live_;  // none: nobody is shown the run while it goes
  double seconds_before_ = 0.0;     // of the processes that this one goes on from
  Clock::time_point began_ = Clock::now();
  std::string started_;                // when, as a date
  std::int64_t updates_at_start_ = 0;  // of this process
  Score last_;                         // of the last batch
  std::optional<Score> best_;          // of the checks
  std::int64_t best_batches_ = 0;      // learned from until then
  std::int64_t checks_since_best_ = 0;
  std::vector<LayerActivity> first_activity_, last_activity_;
  std::vector<WeightSpread> first_weights_, last_weights_;
  std::shared_ptr<const Json> earlier_;  // run.json of a run that goes on
  std::optional<Training::Fidelity> first_fidelity_, last_fidelity_;
  RunResult result_;
  bool solved_ = false, impatient_ = false;
  bool checkpoint_failed_ = false, save_failed_ = false, log_failed_ = false;
};

}  // namespace etrace::train
#pragma GCC visibility pop
