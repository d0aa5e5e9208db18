// A stream as a run: lines in, a log and checkpoints out, in a folder of the run.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "etrace/stream.h"
#include "train/config.h"
#include "train/json_lines.h"
#include "train/live_page.h"
#include "train/run.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// What --set may change of a stream.
struct StreamOption {
  std::string name, value, doc;  // value: its default
};
const std::vector<StreamOption>& stream_options();

struct StreamPlan {
  std::string path;          // "-": standard input
  StreamSettings settings;   // with what --set has changed, below
  std::string label = "-1";  // the column
  std::vector<std::string> classes = {};
  std::int64_t look = 1000;    // lines that are read ahead to find the classes, where none are given
  bool skip_bad = false;       // lines that cannot be used are counted and left out; else they end the run
  std::int64_t lines = 0;      // stop after so many that were learned from; 0: with the stream
  std::int64_t every = 10000;  // lines between checkpoints
  std::string runs, name, folder, checkpoint, json;  // as of RunPlan
  bool resume = false, new_rate = false;
  std::optional<std::uint16_t> live = {};  // as of RunPlan
  std::vector<std::string> command = {};

  // ValueError names what may be set.
  void set(const std::string& name, const std::string& value);
};
ConfigItems config_items(const StreamPlan&);

// What a stream tells beside what every run does.
class StreamView : public RunView {
 public:
  virtual void line(const StreamLearner&, double lines_per_second);  // after each
};
std::string stream_line(const StreamLearner&, double lines_per_second);  // how far it is, for people

struct StreamResult {
  enum class Reason : std::uint8_t { End, CutOff, Lines, Interrupted };
  Reason reason = Reason::End;
  bool files_lost = false;
  std::string folder = {};
};
std::string_view name(StreamResult::Reason);  // "end", "cut off", "lines", "interrupted"

class StreamRun {
 public:
  StreamRun(const StreamPlan&, StreamView&);
  StreamResult operator()();
  const StreamLearner& learner() const { return *learner_; }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  double rate() const;

  bool start();  // false: it was stopped before the classes were known
  void go_on();
  void open_folder();
  void learn();
  bool use(const StreamRow&);
  void bad_row(const std::string& problem);
  void learned(const StreamRow&, const StreamLearner::Answer&);
  bool is_place_of_log() const;
  void finish();
  [[noreturn]] void failed(const Error&);

  void tell(const std::function<void()>& write);
  void log(const char* event);
  void write_checkpoint();
  void write_status(const std::string& status, const std::string& error = {});
  RunPage page_at_start() const;
  std::vector<std::pair<std::string, std::string>> tiles() const;
  void open_live();
  void show_state();  // if it is wanted, and there is something new
  void show_points();
  bool stopped_while_waiting();
  void write_page();

  StreamPlan plan_;
  StreamView& view_;
  CsvStream stream_;
  std::unique_ptr<StreamLearner> learner_;
  std::optional<RunFolder> folder_;
  std::string checkpoint_;
  JsonLines log_{"lines"};
  Clock::time_point began_ = Clock::now();
  std::string started_;
  std::int64_t line_ = 0, byte_ = 0;  // of the stream: used so far, and where the next line begins
  std::int64_t lines_at_start_ = 0, bad_ = 0, saved_line_ = -1;
  std::unique_ptr<LivePage> live_;  // none: nobody is shown the stream while it goes
  double seconds_before_ = 0.0;     // of the processes that this one goes on from
  std::int64_t shown_lines_ = -1;   // of the last points of the live page
  std::int64_t told_lines_ = -1;    // of its last state
  std::string summary_;             // what was said at the start
  std::string cut_;                 // what is said of a stream that was cut off
  StreamResult result_;
  bool log_failed_ = false, checkpoint_failed_ = false;
};

}  // namespace etrace::train
#pragma GCC visibility pop
