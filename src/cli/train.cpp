// etrace train TASK: learns a task online, with progress, checkpoints and a score on data never trained on,
// in a folder of the run. etrace train RUN --resume goes on. Exit status: 0, 1 if --until-accuracy was not
// reached, 2 for wrong input or a file that could not be written, 130 after Ctrl-C.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "cli/engine.h"
#include "cli/help.h"
#include "cli/memory_hint.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/rule_option.h"
#include "cli/run_options.h"
#include "cli/train_compare.h"
#include "cli/train_config.h"
#include "cli/train_stream.h"
#include "cli/train_view.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "train/rule_text.h"

namespace etrace::cli {

namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  RunOptions run;
  RunPlan plan;
  std::string live = "false";
  bool quiet = false, stream = false, every_given = false;
  std::string config, config_task;  // its options came before those that were typed
  // As typed; they become settings.
  std::string update = "sequence";
  RuleArguments rule = {.rule = ""};
  double clip_norm = 1.0;
  CompareArguments compare;
};

TrainSettings settings_of(const TrainCommand& c) {
  TrainSettings s = c.run.complete(c.plan.start_from, RunOptions::Adopt::Model);
  s.update = update_option(c.update);
  s.clip_norm = c.clip_norm == 0.0 ? std::nullopt : std::optional(c.clip_norm);
  s.rule = c.rule.rule;
  s.rule_options = c.rule.option_texts();
  s = resolved(s);
  require_modulator("train", *rule_from(s.rule, s.rule_options));
  return s;
}

void require_sensible(const RunPlan& p) {
  if (p.until_accuracy && !(*p.until_accuracy > 0.0 && *p.until_accuracy <= 1.0))
    throw ValueError("train",
                     fmt::format("--until-accuracy is {}; it must lie in (0, 1]", *p.until_accuracy));
  if (p.checkpoint == kStandardOutput)
    throw ValueError("train", "--checkpoint -: a checkpoint is read again and must be a file");
  if (p.resume && p.checkpoint.empty() && p.folder.empty() && (p.name.empty() || p.runs.empty()))
    throw ValueError("train",
                     "--resume needs the run to go on with: `etrace train RUN --resume`, --name NAME, or "
                     "--checkpoint FILE");
  if (!p.folder.empty() && !p.resume)
    throw ValueError("train",
                     fmt::format("'{}' is a run: add --resume to go on with it, or give a task", p.folder));
  if (!p.resume && !p.checkpoint.empty() && fs::exists(p.checkpoint))
    throw ValueError(
        "train",
        fmt::format("the checkpoint '{}' exists: add --resume to go on from it, or remove it", p.checkpoint));
  const std::string extension = fs::path(p.save).extension().string();
  if (!p.save.empty() && extension != ".safetensors" && extension != ".npz")
    throw ValueError("train", fmt::format("--save {}: the name must end with .safetensors or .npz", p.save));
  const NamedFile checkpoint{"--checkpoint", p.checkpoint}, save{"--save", p.save}, json{"--json", p.json},
      load{"--load", p.load};
  for (const NamedFile& file : {checkpoint, save, json}) require_writable("train", file);
  require_different_files("train", {checkpoint, save, json});
  // Saved parameters may replace those that the run started from; a log or a checkpoint may not.
  require_different_files("train", {load, json});
  require_different_files("train", {load, checkpoint});
}

void add_learning_options(CLI::App& verb, TrainCommand& c) {
  TrainSettings& s = c.run.settings;
  c.rule.add_to(verb);
  verb.add_option("--updates", s.updates, "updates of the parameters; whole batches (default: the task's)")
      ->type_name("N")
      ->check(count_from(1));
  verb.add_option("--optimizer", s.optimizer, "see below")->type_name("NAME")->capture_default_str();
  verb.add_option("--lr", s.learning_rate,
                  "learning rate (default: the task's, of another optimizer than adam its own)")
      ->type_name("X")
      ->check(number_at_least(0));
  verb.add_option(
          "--schedule", s.schedule,
          "of the learning rate: constant, or cosine, down to a fiftieth at the last update (default: "
          "the task's)")
      ->type_name("NAME")
      ->check(one_of({"constant", "cosine"}));
  verb.add_option("--warmup", s.warmup, "updates in which the learning rate rises to its highest")
      ->type_name("N")
      ->check(count_from(0))
      ->capture_default_str();
  verb.add_option("--clip-norm", c.clip_norm, "limit of the gradient's norm; 0: gradients are not clipped")
      ->type_name("X")
      ->check(number_at_least(0))
      ->capture_default_str();
  verb.add_option("--update", c.update, "update after each sequence, window or step")
      ->type_name("WHEN")
      ->check(one_of({"sequence", "window", "step"}))
      ->capture_default_str();
  add_method_option(verb, s.method, "multi-step; with --update step: single-step");
  verb.add_option("--window", s.window,
                  fmt::format("steps of the windows of multi-step, and between updates of --update window "
                              "(default: {})",
                              kDefaultWindow))
      ->type_name("N")
      ->check(count_from(1));
  verb.add_option(
          "--memory", s.memory,
          "steps for which recurrent cells hold what they have taken in, at the start; 0: as the cells "
          "are by themselves (default: the task's; for data 0, or what `etrace data` knows of the set; "
          "else the length of the sequences)")
      ->type_name("STEPS")
      ->check(number_at_least(0));
  add_backend_option(verb, s.backend);
  verb.add_option("--until-accuracy", c.plan.until_accuracy, "stop when this is reached on fresh batches")
      ->type_name("X")
      ->check(number());
}

std::string runs_folder() {
  const char* given = std::getenv("ETRACE_RUNS");
  return given != nullptr && *given != '\0' ? given : "runs";
}

void add_folder_options(CLI::App& verb, TrainCommand& c) {
  RunPlan& p = c.plan;
  p.runs = runs_folder();
  verb.add_option(
          "--runs", p.runs,
          "folder of runs, each of which has a folder in it; none: the run has none (default: runs, or "
          "$ETRACE_RUNS)")
      ->type_name("DIR");
  verb.add_option("--name", p.name, "of the run and its folder (default: TASK-MODEL-RULE-SEED, numbered)")
      ->type_name("NAME");
  verb.add_option(
          "--config", c.config,
          "options from a TOML file whose keys are their names, such as config.toml of a run; what is "
          "typed holds")
      ->type_name("FILE");
  verb.add_flag_callback(
      "--no-fidelity", [&p] { p.fidelity = false; },
      "do not compare the gradient with BPTT's at the start and at the end");
  verb.add_option("--folder", p.folder)->group("");  // of `etrace train RUN`
  verb.add_option("--task", c.config_task)->group("");
  verb.add_option("--check-every", p.check_every, "batches between checks on data that is held out")
      ->type_name("N")
      ->check(count_from(1))
      ->capture_default_str();
  verb.add_option("--patience", p.patience, "stop after so many checks without a better score; 0: never")
      ->type_name("N")
      ->check(count_from(0))
      ->capture_default_str();
}

void add_file_options(CLI::App& verb, TrainCommand& c) {
  RunPlan& p = c.plan;
  verb.add_option("--checkpoint", p.checkpoint, "keep all that is needed to go on in this file")
      ->type_name("FILE");
  verb.add_option("--every", p.every, "updates between checkpoints")
      ->type_name("N")
      ->check(count_from(1))
      ->capture_default_str();
  verb.add_flag("--resume", p.resume,
                "go on from the checkpoint, bit for bit; of RUN, a typed --updates is the new end, and a "
                "typed --lr or --schedule holds from there on");
  verb.add_option("--save", p.save,
                  "write the parameters to FILE.safetensors or FILE.npz; the former also holds the settings, "
                  "for --load")
      ->type_name("FILE");
  verb.add_option("--json", p.json,
                  "write a log, one JSON object per line; -: to standard output, and what is for people to "
                  "standard error")
      ->type_name("FILE");
  // A flag, so that `--live TASK` does not take the task for a port.
  verb.add_flag(
          "--live", c.live,
          "show the run in a browser of this machine while it goes, at this port of 127.0.0.1 (default: "
          "a free one)")
      ->type_name("[=PORT]");
  verb.add_flag("--quiet", c.quiet, "print the result only");
  verb.add_flag("--stream", c.stream,
                "TASK is a table that never ends (- for standard input): each line is answered, then learned "
                "from");
}

// Options that a stream has no use for are refused, so that nobody thinks that they act.
void require_of_stream(const TrainCommand& c) {
  for (const char* option : {"--batch", "--update", "--window", "--method", "--check-every", "--patience",
                             "--until-accuracy", "--load", "--save"})
    if (is_typed(option))
      throw ValueError(
          "train",
          fmt::format("{} has no meaning for a stream: it learns from each line as it comes", option));
  if (c.run.settings.task.empty())
    throw ValueError("train", "which stream? `etrace train FILE --stream`, or - for standard input");
  if (c.plan.resume && c.plan.folder.empty() && c.plan.name.empty() && c.plan.checkpoint.empty())
    throw ValueError("train",
                     "--resume needs the run to go on with: `etrace train RUN --resume`, --name NAME, or "
                     "--checkpoint FILE");
}

train::StreamPlan stream_plan(const TrainCommand& c) {
  train::StreamPlan p;
  const TrainSettings& s = c.run.settings;
  p.path = s.task;
  if (!s.model.empty()) p.settings.model = s.model;
  if (!c.rule.rule.empty()) p.settings.rule = c.rule.rule;
  p.settings.rule_options = c.rule.option_texts();
  require_modulator("train", *rule_from(p.settings.rule, p.settings.rule_options));
  if (s.hidden != 0) p.settings.hidden = s.hidden;
  p.settings.optimizer = s.optimizer;
  if (s.learning_rate || s.optimizer != "adam") p.settings.learning_rate = s.learning_rate;
  p.settings.clip_norm = c.clip_norm == 0.0 ? std::nullopt : std::optional(c.clip_norm);
  p.settings.memory = s.memory.value_or(p.settings.memory);
  p.settings.seed = s.seed;
  p.settings.dtype = dtype_option("--dtype", c.run.dtype, {Dtype::F32, Dtype::F64});
  p.settings.backend = s.backend;
  for (const std::string& text : c.run.set) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      throw ValueError("train", fmt::format("--set {}: expected NAME=VALUE, as in --set label=class", text));
    p.set(text.substr(0, equals), text.substr(equals + 1));
  }
  p.lines = s.updates;
  if (c.every_given) p.every = c.plan.every;
  p.runs = c.plan.runs == "none" ? std::string() : c.plan.runs;
  p.name = c.plan.name;
  p.folder = c.plan.folder;
  p.checkpoint = c.plan.checkpoint;
  p.json = c.plan.json;
  p.resume = c.plan.resume;
  p.live = c.plan.live;
  p.new_rate = p.resume && !p.folder.empty() && is_typed("--lr");
  p.command = typed_words();
  return p;
}

int run_train(TrainCommand& c) {
  if (c.run.settings.task.empty()) c.run.settings.task = c.config_task;
  c.plan.live = run_config({{"live", c.live}}).plan.live;
  if (c.stream) {
    require_of_stream(c);
    return run_stream(stream_plan(c), c.quiet);
  }
  RunPlan& plan = c.plan;
  plan.load = c.run.load;
  if (plan.runs == "none") plan.runs.clear();
  plan.command = typed_words();
  require_sensible(plan);
  plan.start_from = c.run.loaded();
  const TrainSettings settings = settings_of(c);
  if (c.compare.wanted()) return run_compare(c.compare, settings, plan, c.quiet);
  plan.new_rate = plan.resume && !plan.folder.empty() &&
                  std::any_of(train::kRateOptions.begin(), train::kRateOptions.end(),
                              [](const char* name) { return is_typed(fmt::format("--{}", name)); });
  TerminalView view(c.quiet,
                    plan.json == kStandardOutput ? Progress::Stream::Error : Progress::Stream::Output);
  RunResult result;
  with_memory_hint("--hidden and --batch make it smaller, as do --rule pp_prop and --trace-dtype bf16", [&] {
    Run run(plan, settings, view);
    try {
      result = run();
    } catch (...) {
      view.end_line();
      throw;
    }
  });
  if (result.reason == RunResult::Reason::Interrupted)
    return result.files_lost && view.interrupted_code() < 2 ? 2 : view.interrupted_code();
  if (result.files_lost) return 2;
  return result.reached ? 0 : 1;
}

}  // namespace

void add_train(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("train", "learn a task online and score it on fresh data");
  auto c = std::make_shared<TrainCommand>();
  c->run.add_to(
      *verb,
      "start from these parameters, as --save wrote them; --model, --hidden and --dtype are then those "
      "of the file unless given");
  add_learning_options(*verb, *c);
  add_folder_options(*verb, *c);
  add_file_options(*verb, *c);
  c->compare.add_to(*verb);
  verb->footer([] {
    return task_table() + "\n" + model_table() + "\n" + rules_short_help() + "\n" +
           help_table("Optimizers", optim::all()) + "\n" + stream_table();
  });
  verb->callback([c, verb, &status] {
    c->every_given = verb->count("--every") > 0;
    status.code = run_train(*c);
  });
}

}  // namespace etrace::cli
