// Drawing; see the header.
#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace etrace::cli {

namespace {

constexpr double kKeep = 0.98;
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr std::int64_t kLines = 10, kBar = 20;

int descriptor(Progress::Stream s) { return s == Progress::Stream::Output ? STDOUT_FILENO : STDERR_FILENO; }

std::size_t terminal_width(Progress::Stream stream) {
  winsize size{};
  return ioctl(descriptor(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace

void Smoothed::add(double value) {
  sum_ = kKeep * sum_ + value;
  weight_ = kKeep * weight_ + 1.0;
}

Progress::Form Progress::form_of(Stream stream) {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(descriptor(stream)) != 0 && !dumb ? Form::Terminal : Form::Lines;
}

Progress::Progress(Form form, std::int64_t start, std::int64_t total, Stream stream)
    : form_(form),
      stream_(stream),
      out_(stream == Stream::Output ? std::cout : std::cerr),
      start_(start),
      total_(total),
      done_(start) {}

void Progress::show(std::int64_t done, double loss, std::optional<double> accuracy) {
  const std::int64_t before = done_;
  done_ = done;
  loss_.add(loss);
  has_accuracy_ = accuracy.has_value();
  if (accuracy) accuracy_.add(*accuracy);
  if (form_ == Form::Lines && done * kLines / total_ > before * kLines / total_)
    out_ << text() << std::endl;  // whoever reads a pipe reads along
  if (form_ == Form::Terminal && is_due()) {
    const std::size_t width = terminal_width(stream_);
    std::string line = text();
    if (const std::string with_bar = bar() + line; with_bar.size() < width) line = with_bar;
    out_ << "\r\x1b[K" << line.substr(0, width - 1) << std::flush;
    open_ = true;
  }
}

bool Progress::is_due() {
  const auto now = Clock::now();
  if (now - drawn_ < kRedraw && done_ < total_) return false;
  drawn_ = now;
  return true;
}

void Progress::end_line() {
  if (open_) out_ << "\n";
  open_ = false;
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

double Progress::updates_per_second() const {
  return static_cast<double>(done_ - start_) / std::max(seconds(), 1e-9);
}

std::string Progress::bar() const {
  const std::int64_t filled = std::min(done_ * kBar / total_, kBar);
  return fmt::format("[{:#<{}}{:.<{}}] ", "", filled, "", kBar - filled);
}

std::string Progress::text() const {
  const std::string total = std::to_string(total_);
  const double rate = updates_per_second();
  const auto left = static_cast<double>(std::max<std::int64_t>(total_ - done_, 0));
  return fmt::format("{:>{}}/{}  loss {}{}  {:.0f} updates/s  {} left", done_, total.size(), total,
                     loss_text(loss_.value()),
                     has_accuracy_ ? fmt::format("  accuracy {:.3f}", accuracy_.value()) : std::string(),
                     rate, duration_text(left / std::max(rate, 1e-9)));
}

}  // namespace etrace::cli
