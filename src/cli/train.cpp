// etrace train TASK: learns a task online, with progress, checkpoints and a score on data never trained on.
// Exit status: 0, 1 if --until-accuracy was not reached, 2 for wrong input, 130 after Ctrl-C.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <iostream>

#include "cli/interrupt.h"
#include "cli/load_model.h"
#include "cli/progress.h"
#include "cli/rule_option.h"
#include "cli/train_log.h"
#include "cli/training.h"
#include "cli/verbs.h"
#include "compiler/explain_text.h"
#include "etrace/error.h"

namespace etrace::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCheckEvery = 50, kCheckBatches = 4, kFinalBatches = 16;

struct TrainCommand {
  TrainSettings settings;
  // As typed; they become settings.
  std::vector<std::string> set;
  std::string update = "sequence", dtype = "f32";
  RuleArguments rule;
  double clip_norm = 1.0;

  std::int64_t updates = 1000, every = 100;
  std::optional<double> until_accuracy;
  std::string checkpoint, save, json;
  bool resume = false, quiet = false;
};

// Options -> settings ---------------------------------------------------------------------------------------
std::pair<std::string, double> task_setting(const std::string& text) {
  const std::size_t equals = text.find('=');
  double value = 0.0;
  if (equals != std::string::npos && equals > 0) {
    const char *begin = text.data() + equals + 1, *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc() && stop == end) return {text.substr(0, equals), value};
  }
  throw ValueError("train", fmt::format("--set {}: expected NAME=NUMBER, as in --set lag=10", text));
}

Dtype dtype_option(const char* option, const std::string& text, std::initializer_list<Dtype> allowed) {
  const std::optional<Dtype> found = dtype_from_name(text);
  std::string names;
  for (const Dtype d : allowed) {
    if (found == d) return d;
    names += (names.empty() ? "" : ", ") + std::string(short_name(d));
  }
  throw ValueError("train", fmt::format("{} {}: expected one of {}", option, text, names));
}

UpdateEvery update_option(const std::string& text) {
  if (text == "sequence") return UpdateEvery::Sequence;
  if (text == "window") return UpdateEvery::Window;
  if (text == "step") return UpdateEvery::Step;
  throw ValueError("train", fmt::format("--update {}: expected sequence, window or step", text));
}

TrainSettings settings_of(const TrainCommand& c) {
  TrainSettings s = c.settings;
  for (const std::string& text : c.set) s.task_settings.push_back(task_setting(text));
  s.update = update_option(c.update);
  if (s.window != 0 && s.update != UpdateEvery::Window)
    throw ValueError(
        "train", fmt::format("--window {} is for --update window, but --update is {}", s.window, c.update));
  s.dtype = dtype_option("--dtype", c.dtype, {Dtype::F32, Dtype::F64});
  s.clip_norm = c.clip_norm == 0.0 ? std::nullopt : std::optional(c.clip_norm);
  s.rule = c.rule.rule;
  s.rule_made = c.rule.make();
  return s;
}

// What would only fail after the work is done is asked before it.
void require_writable(const char* option, const std::string& file) {
  if (file.empty()) return;
  fs::path folder = fs::path(file).parent_path();
  if (folder.empty()) folder = ".";
  if (fs::is_directory(file)) throw IoError("train", fmt::format("{} {}: that is a folder", option, file));
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw IoError("train",
                  fmt::format("{} {}: no file can be written in '{}'; create the folder or choose another",
                              option, file, folder.string()));
}

void require_sensible(const TrainCommand& c) {
  if (c.updates < 1)
    throw ValueError("train", fmt::format("--updates is {}; it must be at least 1", c.updates));
  if (c.every < 1) throw ValueError("train", fmt::format("--every is {}; it must be at least 1", c.every));
  if (c.until_accuracy && !(*c.until_accuracy > 0.0 && *c.until_accuracy <= 1.0))
    throw ValueError("train",
                     fmt::format("--until-accuracy is {}; it must lie in (0, 1]", *c.until_accuracy));
  if (c.resume && c.checkpoint.empty())
    throw ValueError("train", "--resume needs --checkpoint FILE: the checkpoint to go on from");
  if (!c.resume && !c.checkpoint.empty() && fs::exists(c.checkpoint))
    throw ValueError(
        "train",
        fmt::format("the checkpoint '{}' exists: add --resume to go on from it, or remove it", c.checkpoint));
  const std::string extension = fs::path(c.save).extension().string();
  if (!c.save.empty() && extension != ".safetensors" && extension != ".npz")
    throw ValueError("train", fmt::format("--save {}: the name must end with .safetensors or .npz", c.save));
  require_writable("--checkpoint", c.checkpoint);
  require_writable("--save", c.save);
  require_writable("--json", c.json);
}

// The run ---------------------------------------------------------------------------------------------------
class TrainRun {
 public:
  explicit TrainRun(const TrainCommand& c) : command_(c), training_(settings_of(c)) {
    if (c.until_accuracy && !training_.has_accuracy())
      throw ValueError("train",
                       fmt::format("the task {} has no labels and so no accuracy; leave out --until-accuracy",
                                   c.settings.task));
  }

  int operator()() {
    start();
    Progress progress(command_.quiet ? Progress::Form::Silent : Progress::form_of_stdout(),
                      training_.updates(), command_.updates);
    const Interrupt interrupt;
    while (!interrupt.requested() && !solved_ && training_.updates() < command_.updates) batch(progress);
    progress.end_line();
    if (command_.until_accuracy && !solved_ && !interrupt.requested()) check();
    if (!command_.checkpoint.empty()) training_.save(command_.checkpoint);
    if (!command_.save.empty()) save_parameters(training_.module(), command_.save);
    return interrupt.requested() ? interrupted(interrupt, progress) : finish(progress);
  }

 private:
  void say(const std::string& text) const {
    if (!command_.quiet) std::cout << text << std::flush;
  }

  void start() {
    const bool found = command_.resume && fs::exists(command_.checkpoint);
    if (found) training_.resume(command_.checkpoint);
    if (!command_.json.empty()) log_ = TrainLog(command_.json, found);
    log_.start(training_);
    if (found && is_place_of_check()) check();  // it may have been solved
    say(training_.summary());
    if (found)
      say(fmt::format("going on after {} from {}\n", progress_text(), command_.checkpoint));
    else if (command_.resume)
      say(fmt::format("there is no {} yet: starting anew\n", command_.checkpoint));
    say("\n");
  }

  void batch(Progress& progress) {
    const std::int64_t before = training_.updates();
    try {
      last_ = training_.learn();
    } catch (const Error&) {
      progress.end_line();
      throw;
    }
    log_.batch(training_, last_, progress.seconds());
    progress.show(training_.updates(), last_.loss, last_.accuracy);
    if (is_place_of_check()) check();
    if (!command_.checkpoint.empty() && before / command_.every != training_.updates() / command_.every)
      training_.save(command_.checkpoint);
  }

  // Places are fixed, so that a run that was resumed stops where the other would have.
  bool is_place_of_check() const {
    return command_.until_accuracy && training_.batches() > 0 && training_.batches() % kCheckEvery == 0;
  }
  void check() {
    const Training::Score score = training_.score(Training::Fresh::Check, kCheckBatches);
    log_.check(training_, score);
    solved_ = *score.accuracy >= *command_.until_accuracy;
  }

  std::string progress_text() const {
    const std::string updates = counted(static_cast<std::size_t>(training_.updates()), "update");
    return training_.updates_per_batch() == 1 ? updates
                                              : fmt::format("{} ({} batches)", updates, training_.batches());
  }

  int finish(const Progress& progress) {
    const double seconds = progress.seconds(), rate = progress.updates_per_second();
    const Training::Score score = training_.score(Training::Fresh::Final, kFinalBatches);
    log_.end(training_, solved_ ? "accuracy" : "updates", score, seconds);
    say(fmt::format("\n{}: {:.1f} s, {:.0f} updates/s, {} of traces\n", progress_text(), seconds, rate,
                    bytes_text(training_.trace_bytes())));
    std::cout << fmt::format("on {} batches never trained on: loss {}", kFinalBatches, loss_text(score.loss));
    if (score.accuracy) std::cout << fmt::format(", accuracy {:.4f}", *score.accuracy);
    std::cout << "\n";
    for (const std::string& file : {command_.checkpoint, command_.save})
      if (!file.empty()) say("wrote " + file + "\n");
    if (!command_.until_accuracy || solved_) return 0;
    std::cout << fmt::format("accuracy {} was not reached in {}; give --updates more\n",
                             *command_.until_accuracy, progress_text());
    return 1;
  }

  int interrupted(const Interrupt& interrupt, const Progress& progress) {
    log_.end(training_, "interrupted", last_, progress.seconds());
    std::cout << fmt::format("stopped after {} of {}", progress_text(), command_.updates);
    if (command_.checkpoint.empty())
      std::cout << "; with --checkpoint FILE a run can go on where it was stopped\n";
    else
      std::cout << fmt::format("; {} is written: the same command with --resume goes on from there\n",
                               command_.checkpoint);
    return interrupt.exit_code();
  }

  const TrainCommand& command_;
  Training training_;
  TrainLog log_;
  Training::Score last_;  // of the last batch
  bool solved_ = false;
};

// "one of adam, sgd"
template <class Rows>
std::string one_of(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return fmt::format("one of {}", fmt::join(names, ", "));
}

// "copying: symbols (10), alphabet (8), lag (20)": for the foot of the help.
std::string task_table() {
  std::string text = "Tasks and what --set can change:";
  for (const TaskEntry& t : tasks()) {
    text += fmt::format("\n  {}: {}", t.name, t.doc);
    for (const TaskSetting& s : t.settings)
      text += fmt::format("\n    {:<12} {} (default {:.10g})", s.name, s.doc, s.value);
  }
  return text;
}

}  // namespace

void add_train(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("train", "learn a task online and score it on fresh data");
  auto c = std::make_shared<TrainCommand>();
  TrainSettings& s = c->settings;
  verb->option_defaults()->take_last();  // a script's defaults come first
  verb->add_option("TASK", s.task, one_of(tasks()))->required();
  verb->add_option("--model", s.model, "a built-in model: " + model_names())->capture_default_str();
  c->rule.add_to(*verb);
  verb->add_option("--set", c->set, "a setting of the task, NAME=NUMBER; may be repeated")
      ->allow_extra_args(false)
      ->take_all();
  verb->add_option("--hidden", s.hidden, "size of every hidden layer")->capture_default_str();
  verb->add_option("--batch", s.batch, "samples per batch")->capture_default_str();
  verb->add_option("--updates", c->updates, "updates of the parameters; whole batches")
      ->capture_default_str();
  verb->add_option("--optimizer", s.optimizer, one_of(optim::all()))->capture_default_str();
  verb->add_option("--lr", s.learning_rate, "learning rate (default: the optimizer's own)");
  verb->add_option("--clip-norm", c->clip_norm, "limit of the gradient's norm; 0: none")
      ->capture_default_str();
  verb->add_option("--update", c->update, "update after each sequence, window or step")
      ->capture_default_str();
  verb->add_option("--window", s.window, "steps between updates of --update window");
  verb->add_option("--seed", s.seed, "of the parameters and of the data")->capture_default_str();
  verb->add_option("--dtype", c->dtype, "f32 or f64")->capture_default_str();
  verb->add_option("--until-accuracy", c->until_accuracy, "stop when this is reached on fresh batches");
  verb->add_option("--checkpoint", c->checkpoint, "keep all that is needed to go on in this file");
  verb->add_option("--every", c->every, "updates between checkpoints")->capture_default_str();
  verb->add_flag("--resume", c->resume, "go on from the checkpoint, bit for bit");
  verb->add_option("--save", c->save, "write the parameters to FILE.safetensors or FILE.npz");
  verb->add_option("--json", c->json, "write a log, one JSON object per line");
  verb->add_flag("--quiet", c->quiet, "print the result only");
  verb->footer([] { return task_table() + "\n" + rules_help(); });
  verb->callback([c, &status] {
    try {
      require_sensible(*c);
      status.code = TrainRun(*c)();
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      std::cerr << "etrace train: " << e.what() << "\n";
      status.code = 2;
    }
  });
}

}  // namespace etrace::cli
