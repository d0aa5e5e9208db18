// The run; see the header.
#include "cli/train_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "cli/output.h"
#include "compiler/explain_text.h"
#include "etrace/error.h"
#include "train/saved_parameters.h"

namespace etrace::cli {

namespace {

constexpr std::int64_t kCheckEvery = 50, kCheckBatches = 4, kFinalBatches = 16;

}  // namespace

TrainRun::TrainRun(const TrainPlan& plan, const TrainSettings& settings) : plan_(plan), training_(settings) {
  if (plan.until_accuracy && !training_.has_accuracy())
    throw ValueError("train",
                     fmt::format("the task {} has no labels and so no accuracy; leave out --until-accuracy",
                                 settings.task));
}

int TrainRun::operator()() {
  start();
  const auto stream = plan_.json == kStandardOutput ? Progress::Stream::Error : Progress::Stream::Output;
  progress_.emplace(plan_.quiet ? Progress::Form::Silent : Progress::form_of(stream), training_.updates(),
                    plan_.updates, stream);
  const Interrupt interrupt;
  while (!interrupt.requested() && !solved_ && training_.updates() < plan_.updates) batch();
  progress_->end_line();
  if (plan_.until_accuracy && !solved_ && !interrupt.requested()) {
    const Score score = check();
    log([&](TrainLog& l) { l.check(training_, score); });
  }
  write_checkpoint("");
  write_parameters();
  const int code = interrupt.requested() ? interrupted(interrupt) : finish();
  const bool lost = checkpoint_failed_ || save_failed_ || log_failed_;
  return lost && code < 2 ? 2 : code;
}

std::ostream& TrainRun::out() const { return plan_.json == kStandardOutput ? std::cerr : std::cout; }

void TrainRun::say(const std::string& text) const {
  if (!plan_.quiet) out() << text << std::flush;
}

void TrainRun::warn(const std::string& text) {
  if (progress_) progress_->end_line();
  std::cerr << "etrace train: " << text << std::endl;
}

std::string TrainRun::progress_text() const {
  const std::string updates = counted(static_cast<std::size_t>(training_.updates()), "update");
  return training_.updates_per_batch() == 1 ? updates
                                            : fmt::format("{} ({} batches)", updates, training_.batches());
}

void TrainRun::start() {
  const bool found = plan_.resume && std::filesystem::exists(plan_.checkpoint);
  if (found) training_.resume(plan_.checkpoint);
  if (!found && plan_.start_from) take_parameters(training_.module(), *plan_.start_from, plan_.load);
  if (!plan_.json.empty())
    log_ = TrainLog(plan_.json, found ? std::optional(training_.batches()) : std::nullopt);
  log_.start(training_);                      // what fails here fails before the work
  if (found && is_place_of_check()) check();  // it may have been solved; the log says so already
  say(training_.summary());
  if (found)
    say(fmt::format("going on after {} from {}\n", progress_text(), plan_.checkpoint));
  else if (plan_.resume)
    say(fmt::format("there is no {} yet: starting anew\n", plan_.checkpoint));
  if (!found && plan_.start_from) say(fmt::format("parameters from {}\n", plan_.load));
  say("\n");
}

void TrainRun::batch() {
  const std::int64_t before = training_.updates();
  try {
    last_ = training_.learn();
  } catch (const Error&) {
    progress_->end_line();
    throw;
  }
  log([&](TrainLog& l) { l.batch(training_, last_, progress_->seconds()); });
  progress_->show(training_.updates(), last_.loss, last_.accuracy);
  if (is_place_of_check()) {
    const Score score = check();
    log([&](TrainLog& l) { l.check(training_, score); });
  }
  if (before / plan_.every != training_.updates() / plan_.every)
    write_checkpoint("; the run goes on, and the next one is tried");
}

// Places are fixed, so that a run that was resumed stops where the other would have.
bool TrainRun::is_place_of_check() const {
  return plan_.until_accuracy && training_.batches() > 0 && training_.batches() % kCheckEvery == 0;
}

Score TrainRun::check() {
  const Score score = training_.score(Training::Fresh::Check, kCheckBatches);
  solved_ = *score.accuracy >= *plan_.until_accuracy;
  return score;
}

void TrainRun::log(const std::function<void(TrainLog&)>& lines) {
  try {
    lines(log_);
  } catch (const IoError& e) {
    warn(e.message() + " The run goes on without it");
    log_failed_ = true;
    log_ = TrainLog();
  }
}

void TrainRun::write_checkpoint(const char* what_follows) {
  if (plan_.checkpoint.empty()) return;
  try {
    training_.save(plan_.checkpoint);
    checkpoint_failed_ = false;
  } catch (const IoError& e) {
    warn(fmt::format("no checkpoint after {}: {}{}", progress_text(), e.message(), what_follows));
    checkpoint_failed_ = true;
  }
}

void TrainRun::write_parameters() {
  if (plan_.save.empty()) return;
  try {
    SettingTexts texts = training_.setting_texts();
    texts.emplace_back("sizes", sizes_text(training_.settings(), training_.task()));
    save_with_settings(training_.module(), texts, plan_.save);
  } catch (const IoError& e) {
    warn(fmt::format("the parameters are not saved: {}", e.message()));
    save_failed_ = true;
  }
}

int TrainRun::finish() {
  const double seconds = progress_->seconds(), rate = progress_->updates_per_second();
  const Score score = training_.score(Training::Fresh::Final, kFinalBatches);
  log([&](TrainLog& l) { l.end(training_, solved_ ? "accuracy" : "updates", score, seconds); });
  say(fmt::format("\n{}: {:.1f} s, {:.0f} updates/s, {} of traces\n", progress_text(), seconds, rate,
                  bytes_text(training_.trace_bytes())));
  out() << score_line(score, kFinalBatches);
  if (!plan_.checkpoint.empty() && !checkpoint_failed_) say("wrote " + plan_.checkpoint + "\n");
  if (!plan_.save.empty() && !save_failed_) say("wrote " + plan_.save + "\n");
  if (!plan_.until_accuracy || solved_) return 0;
  out() << fmt::format("accuracy {} was not reached in {}; give --updates more\n", *plan_.until_accuracy,
                       progress_text());
  return 1;
}

int TrainRun::interrupted(const Interrupt& interrupt) {
  log([&](TrainLog& l) { l.end(training_, "interrupted", last_, progress_->seconds()); });
  out() << fmt::format("stopped after {} of {}", progress_text(), plan_.updates);
  if (plan_.checkpoint.empty())
    out() << "; with --checkpoint FILE a run can go on where it was stopped\n";
  else if (checkpoint_failed_)
    out() << "; its checkpoint could not be written\n";
  else
    out() << fmt::format("; {} is written: the same command with --resume goes on from there\n",
                         plan_.checkpoint);
  return interrupt.exit_code();
}

}  // namespace etrace::cli
