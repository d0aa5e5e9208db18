// How far a long run is: one line that is redrawn on a terminal, plain lines (a tenth of the work each)
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "train/evaluator.h"

namespace etrace::cli {

using namespace train;  // NOLINT: the verbs are about runs

// An average over about the last 50 values; the first ones count fully, so that it does not start at zero.
class Smoothed {
 public:
  void add(double value);
  double value() const { return sum_ / weight_; }  // after the first add()

 private:
  double sum_ = 0.0, weight_ = 0.0;
};

class Progress {
 public:
  enum class Form : std::uint8_t { Silent, Lines, Terminal };
  // Where to: standard output or, if that is for programs, standard error.
  enum class Stream : std::uint8_t { Output, Error };
  static Form form_of(Stream);  // Terminal or Lines

  // Counts updates from `start` (what an earlier run has done) to `total`.
  Progress(Form form, std::int64_t start, std::int64_t total, Stream = Stream::Output);
  ~Progress() { end_line(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::int64_t done, double loss, std::optional<double> accuracy);
  void end_line();  // before anything else is printed
  double seconds() const;
  double updates_per_second() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string text() const;
  std::string bar() const;
  bool is_due();

  Form form_;
  Stream stream_;
  std::ostream& out_;
  std::int64_t start_, total_, done_;
  Smoothed loss_, accuracy_;
  bool has_accuracy_ = false;
  Clock::time_point began_ = Clock::now(), drawn_ = {};
  bool open_ = false;  // a terminal's line that has no end yet
};

}  // namespace etrace::cli
