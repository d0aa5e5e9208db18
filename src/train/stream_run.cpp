// The course of a stream and what it leaves behind; see the header.
#include "train/stream_run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "compiler/explain_text.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "etrace/version.h"
#include "io/json.h"
#include "train/engine.h"
#include "train/rule_text.h"

namespace etrace::train {

namespace {

constexpr const char *kLine = "stream line", *kByte = "stream byte", *kBad = "stream bad lines";
constexpr std::int64_t kLogLines = 1000;  // of a log, before its steps double

std::string now_text() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

std::int64_t whole(const std::string& name, const std::string& text, std::int64_t low) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < low)
    throw ValueError("stream", fmt::format("--set {}={}: expected a whole number from {}", name, text, low));
  return value;
}

bool truth(const std::string& name, const std::string& text) {
  if (text != "0" && text != "1")
    throw ValueError("stream", fmt::format("--set {}={}: expected 0 or 1", name, text));
  return text == "1";
}

std::int64_t number_note(const Learner::Notes& notes, std::string_view key) {
  for (const auto& [name, value] : notes)
    if (name == key) return whole(name, value, 0);
  return 0;
}

std::string joined_text(const std::vector<std::string>& list) {
  return fmt::format("{}", fmt::join(list, ","));
}

}  // namespace

const std::vector<StreamOption>& stream_options() {
  static const std::vector<StreamOption> rows{
      {"label", "-1", "the column of the label: its name or number; -1 is the last one"},
      {"classes", "", "all labels that may come, with commas (default: those of the lines looked at first)"},
      {"look", "1000", "lines that are read ahead to find the classes, where none are given"},
      {"last_label", "1", "1: the label of the line before is an input of this one"},
      {"normalise", "1", "1: inputs get mean 0 and variance 1, by what was seen so far"},
      {"horizon", "10000", "lines after which the newest weigh more in that"},
      {"window", "1000", "lines that recent scores are about"},
      {"bad_lines", "stop", "lines that cannot be used: stop, or skip (they are counted)"},
  };
  return rows;
}

void StreamPlan::set(const std::string& option, const std::string& value) {
  if (option == "label") {
    label = value;
  } else if (option == "classes") {
    classes.clear();
    for (const std::string_view c : data::split(value, ','))
      if (!data::trimmed(c).empty()) classes.emplace_back(data::trimmed(c));
  } else if (option == "look") {
    look = whole(option, value, 1);
  } else if (option == "last_label") {
    settings.last_label = truth(option, value);
  } else if (option == "normalise") {
    settings.normalise = truth(option, value);
  } else if (option == "horizon") {
    settings.horizon = whole(option, value, 2);
  } else if (option == "window") {
    settings.window = whole(option, value, 1);
  } else if (option == "bad_lines") {
    if (value != "stop" && value != "skip")
      throw ValueError("stream", fmt::format("--set bad_lines={}: expected stop or skip", value));
    skip_bad = value == "skip";
  } else {
    throw ValueError("stream", no_such_name("setting of a stream", option, row_names(stream_options())));
  }
}

ConfigItems config_items(const StreamPlan& p) {
  const StreamSettings& s = p.settings;
  ConfigItems out{{"task", p.path}, {"stream", "true"}, {"model", s.model}, {"rule", s.rule}};
  const auto add = [&](const char* key, const auto& value) { out.emplace_back(key, fmt::to_string(value)); };
  add("hidden", s.hidden);
  add("seed", s.seed);
  if (p.lines > 0) add("updates", p.lines);
  out.emplace_back("optimizer", s.optimizer);
  if (s.learning_rate) add("lr", *s.learning_rate);
  add("clip-norm", s.clip_norm.value_or(0.0));
  add("memory", s.memory);
  out.emplace_back("dtype", std::string(short_name(s.dtype)));
  out.emplace_back("backend", s.backend);
  add("every", p.every);
  const auto set = [&](const char* key, const auto& value) {
    out.emplace_back("set", fmt::format("{}={}", key, value));
  };
  set("label", p.label);
  if (!p.classes.empty()) set("classes", joined_text(p.classes));
  set("look", p.look);
  set("last_label", s.last_label ? 1 : 0);
  set("normalise", s.normalise ? 1 : 0);
  set("horizon", s.horizon);
  set("window", s.window);
  set("bad_lines", p.skip_bad ? "skip" : "stop");
  for (const std::string& option : s.rule_options) out.emplace_back("rule-option", option);
  return out;
}

void StreamView::line(const StreamLearner&, double) {}

std::string stream_line(const StreamLearner& l, double rate) {
  const Prequential& p = l.score();
  return fmt::format(
      "{} lines  accuracy {:.4f} (last {}: {:.4f})  no change {:.4f}  kappa {:.3f}  {:.0f} lines/s",
      p.count(), p.accuracy(), std::min(p.window(), p.count()), p.recent_accuracy(), p.no_change(),
      p.kappa_no_change(), rate);
}

std::string_view name(StreamResult::Reason reason) {
  switch (reason) {
    case StreamResult::Reason::CutOff:
      return "cut off";
    case StreamResult::Reason::Lines:
      return "lines";
    case StreamResult::Reason::Interrupted:
      return "interrupted";
    case StreamResult::Reason::End:
      break;
  }
  return "end";
}

StreamRun::StreamRun(const StreamPlan& plan, StreamView& view)
    : plan_(plan),
      view_(view),
      stream_({.path = plan.path,
               .label = plan.label,
               .stop = [this] { return stopped_while_waiting(); },
               .say = [this](const std::string& text) { view_.warn(text); }}),
      checkpoint_(plan.checkpoint) {
  for (const auto& [key, value] : config_items(plan))
    require_name("stream", "a run keeps what it is made of as UTF-8", key, value);
  rule_from(plan.settings.rule, plan.settings.rule_options)->require(VjpMethod::SingleStep);
}

// Who looks sees the last line that came, also while no other does.
bool StreamRun::stopped_while_waiting() {
  if (live_ && learner_) show_state();
  return view_.stop_requested();
}

double StreamRun::rate() const {
  return static_cast<double>(learner_->lines() - lines_at_start_) / std::max(seconds(), 1e-9);
}

StreamResult StreamRun::operator()() {
  if (plan_.live) live_ = std::make_unique<LivePage>(*plan_.live);
  open_folder();
  try {
    if (!start()) {
      result_.reason = StreamResult::Reason::Interrupted;
      view_.result("stopped before a line was learned from\n");
      return result_;
    }
    learn();
  } catch (const Error& e) {
    failed(e);
  }
  finish();
  result_.files_lost = log_failed_ || checkpoint_failed_;
  return result_;
}

void StreamRun::open_folder() {
  started_ = now_text();
  const StreamSettings& s = plan_.settings;
  if (!plan_.folder.empty()) {
    folder_ = RunFolder::open(plan_.folder);
  } else if (!plan_.runs.empty()) {
    const std::string given = plan_.runs + "/" + plan_.name;
    const bool goes_on =
        plan_.resume && !plan_.name.empty() && (RunFolder::is_run(given) || RunFolder::is_begun(given));
    folder_ = goes_on ? RunFolder::open(given, RunFolder::Also::Begun)
                      : RunFolder::create(plan_.runs,
                                          plan_.name.empty()
                                              ? fmt::format("stream-{}-{}-{}", s.model, s.rule, s.seed)
                                              : plan_.name,
                                          plan_.name.empty());
  }
  if (!folder_) return;
  result_.folder = folder_->path();
  if (checkpoint_.empty()) checkpoint_ = folder_->checkpoint();
}

void StreamRun::go_on() {
  const StreamKind kind = stream_kind(checkpoint_);
  learner_ = std::make_unique<StreamLearner>(plan_.settings, kind);
  const Learner::Notes notes = learner_->resume(checkpoint_, plan_.new_rate);
  line_ = number_note(notes, kLine);
  byte_ = number_note(notes, kByte);
  bad_ = number_note(notes, kBad);
  stream_.go_on(line_, byte_, kind);
}

bool StreamRun::start() {
  const bool found = plan_.resume && !checkpoint_.empty() && std::filesystem::exists(checkpoint_);
  if (found) {
    go_on();
  } else {
    if (plan_.classes.empty() && stream_.is_pipe())
      view_.say(
          fmt::format("reading up to {} lines ahead to find the classes (--set classes=A,B names "
                      "them)\n",
                      plan_.look));
    StreamKind kind = stream_.look(plan_.classes.empty() ? plan_.look : 1);
    if (view_.stop_requested()) return false;
    if (!plan_.classes.empty()) kind.classes = plan_.classes;
    learner_ = std::make_unique<StreamLearner>(plan_.settings, kind);
  }
  const auto resumed = found ? std::optional(learner_->lines()) : std::nullopt;
  if (folder_) {
    tell([&] {
      log_.add(folder_->log(), resumed);
      write_file(folder_->file("config.toml"), config_text(config_items(plan_)));
    });
  }
  if (!plan_.json.empty()) log_.add(plan_.json, resumed);
  lines_at_start_ = learner_->lines();
  if (found) saved_line_ = line_;
  write_status("running");  // before anyone is told: who hears of the run finds it
  log("start");
  const StreamKind& kind = learner_->kind();
  summary_ = fmt::format("stream {}: inputs {}{}; which {}? {}\n", plan_.path, fmt::join(kind.inputs, ", "),
                         plan_.settings.last_label ? ", the label before" : "", kind.label,
                         fmt::join(kind.classes, ", "));
  summary_ += fmt::format("model {} with {} hidden units in {}, rule {}, an update per line; traces {}\n",
                          plan_.settings.model, plan_.settings.hidden, short_name(plan_.settings.dtype),
                          learner_->learner().describe(), bytes_text(learner_->learner().trace_bytes()));
  summary_ += engine_text(plan_.settings.backend);
  view_.say(summary_);
  if (found)
    view_.say(fmt::format("going on behind line {} from {}\n", line_, checkpoint_));
  else if (plan_.resume)
    view_.say(fmt::format("there is no {} yet: starting anew\n", checkpoint_));
  open_live();
  view_.say("\n");
  began_ = Clock::now();
  return true;
}

void StreamRun::learn() {
  StreamRow row;
  for (;;) {
    if (plan_.lines > 0 && learner_->lines() >= plan_.lines) {
      result_.reason = StreamResult::Reason::Lines;
      return;
    }
    CsvStream::Next next = view_.stop_requested() ? CsvStream::Next::Stopped : stream_.next(row);
    switch (next) {
      case CsvStream::Next::Row:
        if (use(row)) break;
        continue;
      case CsvStream::Next::Bad:
        bad_row(row.problem);
        break;
      case CsvStream::Next::End:
        result_.reason = StreamResult::Reason::End;
        return;
      case CsvStream::Next::CutOff:
        result_.reason = StreamResult::Reason::CutOff;
        cut_ = row.problem;
        return;
      case CsvStream::Next::Stopped:
        result_.reason = StreamResult::Reason::Interrupted;
        return;
    }
    line_ = row.line;
    byte_ = row.next_byte;
    if (next == CsvStream::Next::Row && learner_->lines() % plan_.every == 0) write_checkpoint();
  }
}

// Whether the line was learned from, or left out.
bool StreamRun::use(const StreamRow& row) {
  const std::int32_t label = learner_->kind().class_of(row.label);
  if (label < 0) {
    bad_row(
        fmt::format("'{}', line {}: the class '{}' is none of {}; --set classes=A,B names all that may "
                    "come",
                    plan_.path, row.line, row.label.substr(0, 40), joined_text(learner_->kind().classes)));
    line_ = row.line;
    byte_ = row.next_byte;
    return false;
  }
  learned(row, learner_->step(row.numbers, label));
  return true;
}

// Ends the run unless such lines are to be left out. The first few are said.
void StreamRun::bad_row(const std::string& problem) {
  if (!plan_.skip_bad) throw ValueError("stream", problem + "; --set bad_lines=skip leaves such lines out");
  constexpr std::int64_t kSaid = 5;
  ++bad_;
  if (bad_ <= kSaid)
    view_.warn(problem + (bad_ == kSaid ? "; left out, and further ones are only counted" : "; left out"));
}

void StreamRun::learned(const StreamRow& row, const StreamLearner::Answer& answer) {
  line_ = row.line;
  byte_ = row.next_byte;
  if (answer.drift) {
    view_.say(fmt::format("line {}: the stream has changed, the last {} answers were right in {:.4f}\n",
                          row.line, std::min(learner_->score().window(), learner_->lines()),
                          learner_->score().recent_accuracy()));
    tell([&] { log("drift"); });
    if (live_) live_->mark(static_cast<double>(learner_->lines()));
  }
  if (!answer.learned && learner_->left_out() <= 5)
    view_.warn(fmt::format("'{}', line {}: the update would not have been finite and was left out",
                           plan_.path, row.line));
  view_.line(*learner_, rate());
  if (live_) show_state();
  if (!is_place_of_log()) return;
  if (live_) show_points();
  tell([&] { log("lines"); });
}

// Every window at first, less and less often later: a log of an endless stream does not grow without end.
bool StreamRun::is_place_of_log() const {
  const std::int64_t lines = learner_->lines();
  std::int64_t step = plan_.settings.window;
  while (lines / step > kLogLines) step *= 2;
  return lines % step == 0;
}

void StreamRun::log(const char* event) {
  if (log_.empty()) return;
  const Prequential& p = learner_->score();
  OrderedJson json{{"event", event}, {"lines", learner_->lines()}, {"line", line_}};
  if (std::string_view(event) == "start")
    for (const auto& [key, value] : learner_->setting_texts()) json["settings"][key] = value;
  json["loss"] = learner_->mean_loss();
  json["accuracy"] = p.accuracy();
  json["recent_accuracy"] = p.recent_accuracy();
  json["no_change"] = p.no_change();
  json["majority"] = p.majority();
  json["kappa"] = p.kappa();
  json["kappa_no_change"] = p.kappa_no_change();
  json["recent_kappa_no_change"] = p.recent_kappa_no_change();
  json["drifts"] = p.drifts();
  json["seconds"] = seconds();
  log_.write(json_text(json));
}

void StreamRun::finish() {
  write_checkpoint();
  tell([&] { log("end"); });
  const bool stopped = result_.reason == StreamResult::Reason::Interrupted;
  write_status(stopped ? "stopped" : "done");
  const Prequential& p = learner_->score();
  if (!cut_.empty()) view_.warn(cut_);
  view_.result(fmt::format(
      "{} lines: accuracy {:.4f}, kappa {:.4f} against no change ({:.4f}), {:.4f} against chance; last {}: "
      "{:.4f}\n",
      p.count(), p.accuracy(), p.kappa_no_change(), p.no_change(), p.kappa(), std::min(p.window(), p.count()),
      p.recent_accuracy()));
  std::string more = fmt::format("{} lines/s", static_cast<std::int64_t>(rate()));
  if (p.drifts() > 0)
    more += fmt::format("; {} seen, the last at answer {}",
                        counted(static_cast<std::size_t>(p.drifts()), "change"), p.last_drift());
  if (bad_ > 0) more += fmt::format("; {} lines left out", bad_);
  if (learner_->left_out() > 0) more += fmt::format("; {} updates left out", learner_->left_out());
  view_.say(more + "\n");
  if (p.count() >= p.window() && p.kappa_no_change() <= 0.0)
    view_.say(
        "no better than repeating the label before; try --set last_label=1, another --lr, more lines\n");
  write_page();
  if (folder_ && !checkpoint_failed_)
    view_.say(
        fmt::format("run folder {}: `etrace train {} --resume` goes on with what comes behind line {}\n",
                    folder_->path(), folder_->path(), line_));
}

// What was learned until then stays.
void StreamRun::failed(const Error& e) {
  std::string more;
  if (learner_) {
    write_checkpoint();
    if (!checkpoint_.empty() && !checkpoint_failed_)
      more = fmt::format(". What was learned from {} lines is kept in {}", learner_->lines(), checkpoint_);
  }
  write_status("failed", e.message());
  if (live_) live_->end("The run has failed: " + e.message() + more);
  if (more.empty()) throw;
  if (dynamic_cast<const IoError*>(&e) != nullptr) throw IoError("stream", e.message() + more);
  throw ValueError("stream", e.message() + more);
}

void StreamRun::tell(const std::function<void()>& write) {
  try {
    write();
  } catch (const IoError& e) {
    view_.warn(e.message() + " The run goes on without it");
    log_failed_ = true;
    log_ = JsonLines("lines");
  }
}

void StreamRun::write_checkpoint() {
  if (checkpoint_.empty() || saved_line_ == line_) return;
  try {
    learner_->save(
        checkpoint_,
        {{kLine, std::to_string(line_)}, {kByte, std::to_string(byte_)}, {kBad, std::to_string(bad_)}});
    saved_line_ = line_;
    checkpoint_failed_ = false;
  } catch (const IoError& e) {
    view_.warn(fmt::format("no checkpoint after {} lines: {}", learner_->lines(), e.message()));
    checkpoint_failed_ = true;
  }
}

void StreamRun::write_status(const std::string& status, const std::string& error) {
  if (!folder_) return;
  const StreamSettings& s = plan_.settings;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  OrderedJson json{
      {"format", "etrace.run"}, {"version", 1},        {"name", folder_->name()},
      {"status", status},       {"task", "stream"},    {"model", s.model},
      {"rule", s.rule},         {"seed", s.seed},      {"updates", learner_ ? learner_->lines() : 0},
      {"started", started_},    {"seconds", seconds()}};
  if (status != "running") json["ended"] = now_text();
  if (status == "done" || status == "stopped") json["reason"] = name(result_.reason);
  if (!error.empty()) json["error"] = error;
  if (learner_) {
    const Prequential& p = learner_->score();
    if (status != "running") json["final"] = {{"loss", learner_->mean_loss()}, {"accuracy", p.accuracy()}};
    json["stream"] = {{"path", plan_.path},
                      {"lines", learner_->lines()},
                      {"line", line_},
                      {"bad_lines", bad_},
                      {"recent_accuracy", p.recent_accuracy()},
                      {"no_change", p.no_change()},
                      {"majority", p.majority()},
                      {"kappa", p.kappa()},
                      {"kappa_no_change", p.kappa_no_change()},
                      {"drifts", p.drifts()},
                      {"lines_per_second", rate()}};
    json["trace_bytes"] = learner_->learner().trace_bytes();
    for (const auto& [key, value] : learner_->setting_texts()) json["settings"][key] = value;
  }
  json["peak_memory_bytes"] = std::int64_t{1024} * usage.ru_maxrss;
  json["command"] = plan_.command;
  json["program"] = {{"version", std::string(version())}, {"backend", s.backend}, {"process", getpid()}};
  tell([&] { write_file(folder_->file("run.json"), json_text(json, 2) + "\n"); });
}

}  // namespace etrace::train
