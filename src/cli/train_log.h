// The log of a training run for programs: JSON, one object per line. A run that goes on appends to it.
#pragma once

#include <fstream>
#include <string>

#include "cli/training.h"

namespace etrace::cli {

class TrainLog {
 public:
  TrainLog() = default;                            // keeps no log
  TrainLog(const std::string& path, bool append);  // IoError if the file cannot be written

  void start(const Training&);  // settings, parameters learned online, trace memory
  void batch(const Training&, const Training::Score&, double seconds);
  void check(const Training&, const Training::Score&);
  void end(const Training&, const std::string& reason, const Training::Score&, double seconds);

 private:
  struct Line;
  void write(const Line&);
  std::string path_;
  std::ofstream out_;
};

}  // namespace etrace::cli
