// Learning from a stream that never ends: each line is answered first and learned from afterwards (test, then
// train), so that every answer counts and nothing is held back. Memory does not grow with the stream.
//
//   CsvStream lines({.path = "-"});                        // standard input
//   const StreamKind kind = lines.look(1000);              // columns and classes, of the first lines
//   StreamLearner learner({.rule = "D_RTRL"}, kind);
//   for (StreamRow row; lines.next(row) == CsvStream::Next::Row;)
//     learner.step(row.numbers, kind.class_of(row.label));
//   learner.score().accuracy();  learner.score().kappa_no_change();
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etrace/backend.h"
#include "etrace/learner.h"

#pragma GCC visibility push(default)
namespace etrace {

// Scores ----------------------------------------------------------------------------------------------------

// Says when a rate of errors has risen: the errors since the best point so far are compared with those until
// then, by Hoeffding's bound of probability `delta`. After an alarm it starts anew.
class DriftWatch {
 public:
  explicit DriftWatch(double delta = 1e-4);  // ValueError unless in (0, 1)
  bool add(bool error);                      // true: the errors have risen

  std::string text() const;  // all that it knows
  void take(const std::string& text);

 private:
  double log_;
  double count_ = 0, errors_ = 0, best_count_ = 0, best_errors_ = 0;
};

// Answers against labels, in the order of a stream. What is asked before the first answer is 0.
class Prequential {
 public:
  // `window`: the answers that recent_…() are about. ValueError: fewer than 2 classes, or no window.
  explicit Prequential(std::int64_t classes, std::int64_t window = 1000);

  // True: the detector says that the stream has changed.
  bool add(std::int32_t answer, std::int32_t label);

  std::int64_t count() const { return count_; }
  double accuracy() const;         // of all
  double recent_accuracy() const;  // of the last window
  // What two who know nothing of the inputs would have: the label of the line before, again; and the label
  // that was most frequent until now.
  double no_change() const;
  double majority() const;
  // (accuracy − p)/(1 − p) with p of guessing with the same frequencies (Cohen's κ), or of no_change(); 0
  // where p is 1. Accuracy alone flatters where labels persist.
  double kappa() const;
  double kappa_no_change() const;
  double recent_kappa_no_change() const;

  std::int64_t drifts() const { return drifts_; }
  std::int64_t last_drift() const { return last_drift_; }  // the answer at which it was seen; 0: none
  std::int32_t last_label() const { return last_label_; }  // -1: none
  std::int64_t window() const { return window_; }

  std::string text() const;            // all that it knows, for checkpoints
  void take(const std::string& text);  // ValueError: it is that of other classes, or none

 private:
  struct Outcome {
    bool right, same;
  };
  std::int64_t window_, count_ = 0, right_ = 0, same_ = 0, majority_right_ = 0, recent_right_ = 0,
                        recent_same_ = 0;
  std::vector<std::int64_t> labels_, answers_;  // how often each class was
  std::deque<Outcome> recent_;
  std::int32_t last_label_ = -1;
  DriftWatch watch_;
  std::int64_t drifts_ = 0, last_drift_ = 0;
};

// Lines -----------------------------------------------------------------------------------------------------

// A line that was read, or why it could not be used.
struct StreamRow {
  std::vector<double> numbers;  // of the columns beside the label, in their order
  std::string label;
  std::string problem;         // "'-', line 17: 3 columns, expected 4"
  std::int64_t line = 0;       // its number, from 1
  std::int64_t next_byte = 0;  // where the line behind it begins
};

// What a stream is about.
struct StreamKind {
  std::vector<std::string> inputs;   // names of the columns that are numbers; "0", "1" … where it has none
  std::string label;                 // name of the column of the label
  std::vector<std::string> classes;  // ascending: by number if all are numbers
  // −1: there is no such class.
  std::int32_t class_of(const std::string& label) const;
};

struct CsvStreamOptions {
  std::string path = "-";    // "-": standard input
  std::string label = "-1";  // the column of the label: its name or number; −1 is the last one
  // Asked about ten times a second while nothing comes: true ends the stream.
  std::function<bool()> stop = {};
  // Told what columns of a stream that goes on are left over, or are taken by their places.
  std::function<void(const std::string& line)> say = {};
};

// A table, line by line, from a file or a pipe. Columns with names are found by them wherever a line of names
// comes: at the beginning, of a stream that goes on, and when a pipe is opened again. It has at most one line
// and what look() has read in memory.
class CsvStream {
 public:
  // IoError: it cannot be opened; ValueError: it is packed.
  explicit CsvStream(const CsvStreamOptions&);
  ~CsvStream();
  CsvStream(const CsvStream&) = delete;
  CsvStream& operator=(const CsvStream&) = delete;

  enum class Next : std::uint8_t {
    Row,
    Bad,      // row.problem says why the line cannot be used; the stream goes on
    End,      // of the file, or of the writer of a pipe
    CutOff,   // the same in the middle of a line, which is not used: row.problem says so
    Stopped,  // options.stop asked for it
  };
  // IoError: it cannot be read. ValueError: a line of more than 16 MiB, a label that names no column, or
  // names that lack one of the columns so far.
  Next next(StreamRow&);

  // Reads ahead so many good lines, or to the end; next() gives them all the same. Classes are those among
  // them. ValueError: there is none, or no column of numbers.
  StreamKind look(std::int64_t lines);

  // Goes on at a place that a row has named. Of a file: at its byte; of a pipe what comes is the line behind,
  // after names of columns if they come again, by which `as_it_was` is found. ValueError: the file is
  // shorter, or has other columns.
  void go_on(std::int64_t line, std::int64_t byte, const StreamKind& as_it_was);

  const std::string& path() const { return options_.path; }
  bool is_pipe() const { return pipe_; }
  std::int64_t blank_lines() const { return blank_; }  // and comments: left out

 private:
  struct Impl;
  enum class Got : std::uint8_t { Line, End, Part, Stopped };
  Got read_line();
  void take_names(std::string_view line);
  void arrange();
  bool is_line_of_names() const;
  void tell(const std::string& text) const;
  Next parse(StreamRow&, const std::string& problem);
  Next fresh(StreamRow&);
  StreamKind kind_so_far() const;

  CsvStreamOptions options_;
  std::unique_ptr<Impl> impl_;
  bool pipe_ = false;
  std::int64_t blank_ = 0;
};

// Learning --------------------------------------------------------------------------------------------------

struct StreamSettings {
  std::string model = "gru", rule = "D_RTRL";
  std::vector<std::string> rule_options = {};  // NAME=VALUE
  std::int64_t hidden = 32;
  std::string optimizer = "adam";
  std::optional<double> learning_rate = 1e-3;  // none: the optimiser's own
  std::optional<double> clip_norm = 1.0;
  double memory = 0.0;  // ModelOptions::memory
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::F32;
  std::string backend = default_backend();
  // The label of the line before is an input of this one, as it is known by then.
  bool last_label = true;
  // Inputs get mean 0 and variance 1, by what was seen so far; after `horizon` lines the newest weigh more.
  bool normalise = true;
  std::int64_t horizon = 10000;
  std::int64_t window = 1000;  // Prequential's
};

class StreamLearner {
 public:
  // ValueError: no classes or inputs; NotSupportedError: the rule cannot learn step by step.
  StreamLearner(const StreamSettings&, const StreamKind&);
  ~StreamLearner();

  struct Answer {
    std::int32_t answer;  // before the label was learned from
    double loss;
    bool drift;    // Prequential's detector
    bool learned;  // false: the update would not have been finite, and was left out
  };
  // Answers, then learns. ValueError: another number of inputs, one that is not finite, no such class.
  Answer step(std::span<const double> numbers, std::int32_t label);

  const Prequential& score() const { return score_; }
  std::int64_t lines() const { return score_.count(); }
  double mean_loss() const;  // of the last window, fading
  const StreamKind& kind() const { return kind_; }
  const StreamSettings& settings() const { return settings_; }
  Learner& learner();
  const Learner& learner() const;
  std::int64_t left_out() const;  // updates that would not have been finite
  // Settings under the names of the command line's options.
  Learner::Notes setting_texts() const;

  // All that is needed to go on bit for bit; `notes` are the caller's.
  void save(const std::string& checkpoint, const Learner::Notes& notes = {}) const;
  // Returns the notes. ValueError names the settings that differ, and changes nothing. `new_rate`: the
  // learning rate may be another one.
  Learner::Notes resume(const std::string& checkpoint, bool new_rate = false);

 private:
  struct Impl;
  void fill(std::span<const double> numbers);

  StreamSettings settings_;
  StreamKind kind_;
  Prequential score_;
  std::unique_ptr<Impl> impl_;
};

// What a checkpoint of a stream was about: to make the learner that goes on. ValueError: it is none.
StreamKind stream_kind(const std::string& checkpoint);

}  // namespace etrace
#pragma GCC visibility pop
