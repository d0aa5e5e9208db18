// A run on the terminal: what it says, one line of progress, Ctrl-C.
#pragma once

#include <optional>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "train/run.h"

namespace etrace::cli {

using namespace train;  // NOLINT: the verbs are about runs

class TerminalView : public RunView {
 public:
  // Standard output may be for a program: then what is for people goes to standard error.
  TerminalView(bool quiet, Progress::Stream stream) : quiet_(quiet), stream_(stream) {}

  void say(const std::string& text) override;
  void result(const std::string& text) override;
  void warn(const std::string& text) override;
  void start(std::int64_t updates, std::int64_t total) override;
  void progress(std::int64_t updates, const Score&) override;
  bool stop_requested() override;

  void end_line();
  int interrupted_code() const { return interrupt_->exit_code(); }

 private:
  bool quiet_;
  Progress::Stream stream_;
  std::optional<Progress> progress_;    // from the first batch on
  std::optional<Interrupt> interrupt_;  // the same
};

}  // namespace etrace::cli
