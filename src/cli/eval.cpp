// etrace eval RUN, etrace eval TASK --load FILE: scores saved parameters on data that was never trained on.
// With the settings of the run that saved them, which a safetensors file holds, it is the score that the run
// ended with.
#include <fmt/format.h>

#include <iostream>

#include "cli/engine.h"
#include "cli/memory_hint.h"
#include "cli/option_values.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "io/json.h"
#include "train/run_folder.h"
#include "train/saved_parameters.h"

namespace etrace::cli {

namespace {

struct EvalCommand {
  RunOptions run;
  std::string backend = default_backend();
  std::int64_t batches = 16;
  bool json = false;
};

std::string score_json(const TrainSettings& s, const EvalCommand& c, std::int64_t batches,
                       const Score& score) {
  OrderedJson out{{"format", "etrace.eval"}, {"load", c.run.load}};
  for (const auto& [key, value] : data_texts(s)) out["settings"][key] = value;
  out["batches"] = batches;
  out["loss"] = score.loss;
  if (score.accuracy) out["accuracy"] = *score.accuracy;
  return json_text(out, 2) + "\n";
}

// A run in the place of the task: its best parameters, with all settings.
void take_run(RunOptions& run) {
  if (!RunFolder::is_run(run.settings.task)) return;
  RunFolder::require_no_stream(run.settings.task, "eval");
  if (!run.load.empty())
    throw ValueError("eval",
                     fmt::format("'{}' is a run and has its parameters; leave out --load, or give a task",
                                 run.settings.task));
  run.load = run.settings.task + "/best.safetensors";
  run.settings.task.clear();
}

void run_eval(EvalCommand& c) {
  take_run(c.run);
  if (c.run.load.empty())
    throw ValueError("eval", "what shall be scored? `etrace eval RUN`, or --load FILE with parameters");
  const TensorFile file = *c.run.loaded();
  const TrainSettings s = resolved(c.run.complete(file, RunOptions::Adopt::ModelAndTask));
  const auto task = task_of(s);
  const ReadyModel model = model_of(s, *task);
  take_parameters(*model.module, file, c.run.load);
  const std::int64_t batches = score_batches(*task, Part::Final, s.batch, c.batches);
  const Score score = Evaluator(model, *task, c.backend)(first_batch(Part::Final), batches, s.batch);
  if (c.json) {
    std::cout << score_json(s, c, batches, score);
    return;
  }
  std::cout << task_text(s, *task)
            << fmt::format("{}, parameters from {}, batches of {}\n", model_text(s, *task), c.run.load,
                           s.batch)
            << score_line(score, batches);
}

}  // namespace

void add_eval(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand("eval", "score saved parameters on data that was never trained on");
  auto c = std::make_shared<EvalCommand>();
  c->run.add_to(
      *verb,
      "the parameters, FILE.safetensors or FILE.npz as --save of train wrote them; a safetensors file "
      "says the task and all settings, too, which hold unless given");
  verb->add_option("--batches", c->batches,
                   "how many are scored, of a task that never ends; of data the whole test part is")
      ->type_name("N")
      ->check(count_from(1))
      ->capture_default_str();
  add_backend_option(*verb, c->backend);
  verb->add_flag("--json", c->json, "the result and the settings, for programs");
  verb->footer([] { return task_table() + "\n" + model_table(); });
  verb->callback([c] { with_memory_hint("--hidden and --batch make it smaller", [&] { run_eval(*c); }); });
}

}  // namespace etrace::cli
