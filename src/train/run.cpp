// The course of a run; its files are in run_files.cpp. See the header.
#include "train/run.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "base/memory.h"
#include "base/utf8.h"
#include "compiler/explain_text.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "train/logged_curves.h"
#include "train/saved_parameters.h"

namespace etrace::train {

namespace {

constexpr std::int64_t kCheckBatches = 4, kFinalBatches = 16;

// Higher accuracy, or lower loss.
bool is_better(const Score& a, const Score& b) {
  if (a.accuracy && b.accuracy && *a.accuracy != *b.accuracy) return *a.accuracy > *b.accuracy;
  return a.loss < b.loss;
}

// What a command names: a task, or the file or data set of one.
std::string subject(const TrainSettings& s) {
  for (const auto& [name, text] : s.task_texts)
    if (name == "file") return text;
  return s.task;
}

// For a run that has learned nothing that can be seen in its score; `learned` is that of its last batch.
std::string what_to_try(const Training& t, const Score& learned, const Score& score,
                        const Judgement& judgement) {
  const TrainSettings& s = t.settings();
  const TaskRecipe recipe = task_row(s).recipes.front();
  const std::optional<std::int64_t> scored = t.task().samples(Part::Final);
  std::vector<std::string> ideas;
  if (scored && score.accuracy && *score.accuracy > *judgement.guess.accuracy)
    ideas.push_back(fmt::format("more data: {} scored, and with so few an accuracy of {:.4f} may be luck",
                                *scored == 1 ? "one sample was" : fmt::format("{} samples were", *scored),
                                *score.accuracy));
  if (scored && learned.accuracy && *learned.accuracy >= judgement.goal)
    ideas.push_back(
        fmt::format("it knows the samples that it learns from by heart (accuracy {:.4f} on the last batch), "
                    "but not the rule "
                    "behind them: bring more of them, or take fewer units (--hidden) or fewer channels",
                    *learned.accuracy));
  if (s.model != recipe.model || s.rule != recipe.rule)
    ideas.push_back(
        fmt::format("`etrace train {}` alone learns with {} and {}", subject(s), recipe.model, recipe.rule));
  if (s.updates < recipe.updates) ideas.push_back(fmt::format("--updates {} or more", recipe.updates));
  ideas.push_back(fmt::format("another learning rate than {}", s.learning_rate.value_or(0.0)));
  ideas.emplace_back("a longer --window");
  if (!scored) ideas.emplace_back("easier settings of the task first, say shorter delays");
  return fmt::format("  what to try: {}\n", fmt::join(ideas, "; "));
}

std::string fidelity_text(const std::optional<Training::Fidelity>& first,
                          const std::optional<Training::Fidelity>& last) {
  if (!last) return {};
  const std::string at_start = first ? fmt::format("{:.3f} at the start, ", first->cosine) : "";
  return fmt::format("  cosine of the gradient to BPTT's: {}{:.3f} at the end\n", at_start, last->cosine);
}

}  // namespace

RunView::~RunView() = default;
void RunView::say(const std::string&) {}
void RunView::result(const std::string&) {}
void RunView::warn(const std::string&) {}
void RunView::start(std::int64_t, std::int64_t) {}
void RunView::progress(std::int64_t, const Score&) {}
void RunView::check(std::int64_t, const Score&) {}
bool RunView::stop_requested() { return false; }

std::string_view name(RunResult::Reason reason) {
  switch (reason) {
    case RunResult::Reason::Accuracy:
      return "accuracy";
    case RunResult::Reason::Patience:
      return "patience";
    case RunResult::Reason::Interrupted:
      return "interrupted";
    case RunResult::Reason::Updates:
      break;
  }
  return "updates";
}

namespace {
// Settings are kept in files that are UTF-8, to go on with them.
const TrainSettings& require_keepable(const TrainSettings& s, const RunPlan& plan) {
  const auto require = [](const char* what, const std::string& text) {
    require_name("train", "a run keeps what it is made of as UTF-8", what, text);
  };
  require("task", s.task);
  require("model", s.model);
  require("rule", s.rule);
  require("file", plan.load);
  for (const auto& [name, value] : s.task_texts) require(name.c_str(), value);
  for (const std::string& text : s.layers) require("layer", text);
  for (const std::string& text : s.rule_options) require("option", text);
  return s;
}

// A run that goes on finds the columns that it has learned from by their names.
TrainSettings with_columns(TrainSettings s, const RunPlan& plan) {
  const std::string folder = !plan.folder.empty()                       ? plan.folder
                             : !plan.runs.empty() && !plan.name.empty() ? plan.runs + "/" + plan.name
                                                                        : "";
  const std::string path = !plan.checkpoint.empty() ? plan.checkpoint : RunFolder::checkpoint_of(folder);
  if (!plan.resume || s.expected || !std::filesystem::exists(path)) return s;
  const TensorFile notes{.tensors = {}, .metadata = checkpoint_notes(load_checkpoint(path))};
  s.expected = SavedSettings(notes, path).expected();
  return s;
}
}  // namespace

Run::Run(const RunPlan& plan, const TrainSettings& settings, RunView& view)
    : plan_(plan),
      view_(view),
      training_(with_columns(require_keepable(settings, plan), plan)),
      checkpoint_(plan.checkpoint) {
  if (plan.until_accuracy && !training_.has_accuracy())
    throw ValueError("train",
                     fmt::format("the task {} has no labels and so no accuracy; leave out --until-accuracy",
                                 settings.task));
}

Run::~Run() = default;

RunResult Run::operator()() {
  if (plan_.live) live_ = std::make_unique<LivePage>(*plan_.live);
  open_folder();
  try {
    start();
    const std::int64_t total = training_.settings().updates;
    view_.start(training_.updates(), total);
    measure_start();
    began_ = Clock::now();
    bool stopped = false;
    while (!(stopped = view_.stop_requested()) && !solved_ && !impatient_ && training_.updates() < total)
      batch();
    if (plan_.until_accuracy && !solved_ && !stopped && !is_place_of_check()) {
      const Score score = check();
      tell([&] { log_.check(training_, score); });
    }
    write_checkpoint("");
    if (!stopped) take_best();
    write_parameters();
    stopped ? interrupted() : finish();
  } catch (const Error& e) {
    write_status("failed", e.message());
    if (live_) live_->end("The run has failed: " + e.message());
    throw;
  } catch (const std::exception& e) {  // of the program around: a batch that was given up, a view that threw
    const bool stopped = view_.stop_requested();
    if (stopped) result_.reason = RunResult::Reason::Interrupted;
    write_status(stopped ? "stopped" : "failed", stopped ? "" : e.what());
    if (live_) live_->end(stopped ? "The run was stopped." : fmt::format("The run has failed: {}", e.what()));
    throw;
  }
  result_.batches = training_.batches();
  result_.updates = training_.updates();
  result_.files_lost = checkpoint_failed_ || save_failed_ || log_failed_;
  return result_;
}

std::string Run::progress_text() const {
  const std::string updates = counted(static_cast<std::size_t>(training_.updates()), "update");
  return training_.updates_per_batch() == 1 ? updates
                                            : fmt::format("{} ({} batches)", updates, training_.batches());
}

void Run::start() {
  const bool found = plan_.resume && !checkpoint_.empty() && std::filesystem::exists(checkpoint_);
  if (found) go_on();
  if (!found && plan_.start_from) take_parameters(training_.module(), *plan_.start_from, plan_.load);
  if (!found && has_page()) first_weights_ = weight_spreads(training_.module());
  updates_at_start_ = training_.updates();
  const auto resumed = found ? std::optional(training_.batches()) : std::nullopt;
  if (folder_) {
    tell([&] {
      if (resumed) result_.history = logged_history(folder_->log(), *resumed);
      log_ = TrainLog(folder_->log(), resumed);
      events_ = EventFile(folder_->path());
      write_config();
    });
  }
  if (!plan_.json.empty()) log_.also(plan_.json, resumed);
  first_activity_ = training_.activity();
  write_status("running");  // before anyone is told: who hears of the run finds it
  log_.start(training_);    // what fails here fails before the work
  if (found && is_place_of_check()) repeat_check();
  view_.say(training_.summary() + activity_text(first_activity_) + activity_advice(first_activity_));
  if (found)
    view_.say(fmt::format("going on after {} from {}\n", progress_text(), checkpoint_));
  else if (plan_.resume)
    view_.say(fmt::format("there is no {} yet: starting anew\n", checkpoint_));
  if (!found && plan_.start_from) {
    view_.say(fmt::format("parameters from {}\n", plan_.load));
    say_other_columns();
  }
  open_live();
  view_.say("\n");
}

// Parameters of other columns are taken by their places: that may be meant.
void Run::say_other_columns() {
  const auto there = SavedSettings(*plan_.start_from, plan_.load).expected();
  const TensorFile facts{.tensors = {}, .metadata = training_.task().facts()};
  const auto here = SavedSettings(facts, plan_.load).expected();
  if (!there || !here || there->columns.inputs.empty() || there->columns.inputs == here->columns.inputs)
    return;
  view_.warn(
      fmt::format("the parameters were learned from {}, and this data has {}: they meet by their places",
                  data::first_names(there->columns.inputs),
                  here->columns.inputs.empty() ? "no names" : data::first_names(here->columns.inputs)));
}

void Run::measure_start() {
  if (!folder_ || !plan_.fidelity || earlier_) return;
  first_fidelity_ = training_.fidelity();
  write_status("running");
}

void Run::batch() {
  const std::int64_t before = training_.updates();
  last_ = training_.learn();
  tell([&] { log_.batch(training_, last_, seconds()); });
  keep_point(result_.history.batches, last_);
  show_point(LoggedCurves::Training, last_);
  view_.progress(training_.updates(), last_);
  if (is_place_of_check()) {
    const Score score = check();
    tell([&] {
      log_.check(training_, score);
      Scalars scalars{{"train/loss", last_.loss}, {"check/loss", score.loss}};
      if (last_.accuracy) scalars.emplace_back("train/accuracy", *last_.accuracy);
      if (score.accuracy) scalars.emplace_back("check/accuracy", *score.accuracy);
      events_.write(training_.updates(), scalars);
    });
  }
  if (before / plan_.every != training_.updates() / plan_.every)
    write_checkpoint("; the run goes on, and the next one is tried");
}

// Places are fixed, so that a run that was resumed stops where the other would have.
bool Run::is_place_of_check() const {
  return checks() && training_.batches() > 0 && training_.batches() % plan_.check_every == 0;
}

void Run::keep_point(std::vector<RunHistory::Point>& curve, const Score& score) {
  curve.push_back({training_.batches(), training_.updates(), score});
}

Score Run::check() {
  const Score score = training_.score(Part::Check, kCheckBatches);
  keep_point(result_.history.checks, score);
  show_point(LoggedCurves::HeldOut, score);
  view_.check(training_.updates(), score);
  solved_ = plan_.until_accuracy && *score.accuracy >= *plan_.until_accuracy;
  keep_if_best(score);
  return score;
}

// The check at which the checkpoint was made: whether it has ended the run. Best score, count of checks and
// log have it already.
void Run::repeat_check() {
  if (plan_.until_accuracy)
    solved_ = *training_.score(Part::Check, kCheckBatches).accuracy >= *plan_.until_accuracy;
  impatient_ = plan_.patience > 0 && checks_since_best_ >= plan_.patience;
}

void Run::keep_if_best(const Score& score) {
  if (!best_ || is_better(score, *best_)) {
    best_ = score;
    best_batches_ = training_.batches();
    checks_since_best_ = 0;
    write_best(score);
  } else {
    ++checks_since_best_;
  }
  impatient_ = plan_.patience > 0 && checks_since_best_ >= plan_.patience;
}

void Run::finish() {
  const double took = seconds();
  const double rate = static_cast<double>(training_.updates() - updates_at_start_) / std::max(took, 1e-9);
  result_.score = training_.score(Part::Final, kFinalBatches);
  result_.reason = solved_      ? RunResult::Reason::Accuracy
                   : impatient_ ? RunResult::Reason::Patience
                                : RunResult::Reason::Updates;
  tell([&] { log_.end(training_, std::string(name(result_.reason)), result_.score, took); });
  view_.say(fmt::format("\n{}: {:.1f} s, {:.0f} updates/s, {} of traces\n", progress_text(), took, rate,
                        bytes_text(training_.trace_bytes())));
  if (impatient_) view_.say(fmt::format("stopped: {} checks without a better score\n", checks_since_best_));
  view_.result(score_line(result_.score, training_.score_batches(Part::Final, kFinalBatches)));
  conclude();
  write_status("done");
  write_page(result_.judgement->text(), result_.judgement->outcome != Outcome::Guessing);
  if (!plan_.checkpoint.empty() && !checkpoint_failed_) view_.say("wrote " + plan_.checkpoint + "\n");
  if (!plan_.save.empty() && !save_failed_) view_.say("wrote " + plan_.save + "\n");
  if (folder_)
    view_.say(
        fmt::format("run folder {}: `etrace eval {}` scores it again\n", folder_->path(), folder_->path()));
  result_.reached = !plan_.until_accuracy || solved_;
  if (!result_.reached)
    view_.result(fmt::format("accuracy {} was not reached in {}; give --updates more\n",
                             *plan_.until_accuracy, progress_text()));
}

void Run::conclude() {
  last_activity_ = training_.activity();
  if (has_page()) last_weights_ = weight_spreads(training_.module());
  if (folder_ && plan_.fidelity) last_fidelity_ = training_.fidelity();
  result_.judgement = training_.judged(result_.score, kFinalBatches);
  view_.say(activity_text(last_activity_) + fidelity_text(first_fidelity_, last_fidelity_) +
            result_.judgement->text() + "\n");
  if (result_.judgement->outcome == Outcome::Guessing)
    view_.say(what_to_try(training_, last_, result_.score, *result_.judgement));
  view_.say(activity_advice(last_activity_));
}

void Run::interrupted() {
  result_.reason = RunResult::Reason::Interrupted;
  result_.score = last_;
  tell([&] { log_.end(training_, "interrupted", last_, seconds()); });
  write_status("stopped");
  std::string text = fmt::format("stopped after {} of {}", progress_text(), training_.settings().updates);
  if (checkpoint_.empty())
    text += "; with --checkpoint FILE a run can go on where it was stopped\n";
  else if (checkpoint_failed_)
    text += "; its checkpoint could not be written\n";
  else if (folder_)
    text += fmt::format("; `etrace train {} --resume` goes on from there\n", folder_->path());
  else
    text += fmt::format("; {} is written: the same command with --resume goes on from there\n", checkpoint_);
  view_.result(text);
  write_page(text, false);
}

}  // namespace etrace::train
