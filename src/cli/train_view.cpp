#include "cli/train_view.h"

#include <iostream>

namespace etrace::cli {

void TerminalView::end_line() {
  if (progress_) progress_->end_line();
}

void TerminalView::say(const std::string& text) {
  if (!quiet_) result(text);
}

void TerminalView::result(const std::string& text) {
  end_line();
  (stream_ == Progress::Stream::Error ? std::cerr : std::cout) << text << std::flush;
}

void TerminalView::warn(const std::string& text) {
  end_line();
  std::cerr << "etrace train: " << text << std::endl;
}

void TerminalView::start(std::int64_t updates, std::int64_t total) {
  progress_.emplace(quiet_ ? Progress::Form::Silent : Progress::form_of(stream_), updates, total, stream_);
  interrupt_.emplace();
}

void TerminalView::progress(std::int64_t updates, const Score& score) {
  progress_->show(updates, score.loss, score.accuracy);
}

// Before the work nobody has asked.
bool TerminalView::stop_requested() { return interrupt_ && interrupt_->requested(); }

}  // namespace etrace::cli
