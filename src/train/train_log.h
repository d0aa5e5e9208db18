// The log of a training run for programs: JSON, one object per line. A run that goes on appends to it.
#pragma once

#include <optional>
#include <string>

#include "train/json_lines.h"
#include "train/training.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// The curves that a log has, up to so many batches; lines that are no such objects are left out. IoError.
RunHistory logged_history(const std::string& path, std::int64_t batches);

class TrainLog {
 public:
  TrainLog() = default;  // keeps no log
  // "-" is standard output. A run that was resumed after so many batches keeps what the log says up to there
  // and drops the rest, which is learned again. IoError if the file cannot be written, ValueError if it is
  // to go on and is no such log.
  TrainLog(const std::string& path, std::optional<std::int64_t> resumed_after);
  // The same lines to a further file.
  void also(const std::string& path, std::optional<std::int64_t> resumed_after);

  // IoError if a line could not be written. They are whole lines: a run that is killed leaves no parts.
  void start(const Training&);  // settings, parameters learned online, trace memory
  void batch(const Training&, const Score&, double seconds);
  void check(const Training&, const Score&);
  void end(const Training&, const std::string& reason, const Score&, double seconds);

 private:
  struct Line;
  void write(const Line&);

  JsonLines lines_{"batches"};
};

}  // namespace etrace::train
#pragma GCC visibility pop
