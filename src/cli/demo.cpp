// etrace demo: a recurrent network from the model to the solved task, and spiking neurons on real data. What
// is learned online and what is not, its gradient against backpropagation through time, and training. Exit
// status 1 if a gradient is not what it must be, or if the task is not solved.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "cli/engine.h"
#include "cli/progress.h"
#include "cli/train_view.h"
#include "cli/verbs.h"
#include "compiler/explain_text.h"
#include "etrace/verify.h"
#include "train/run.h"

namespace etrace::cli {

namespace {

constexpr std::int64_t kMaxUpdates = 4000, kDemoCheckEvery = 50;
// Stopping asks for more than the result has to show, since a check sees few samples.
constexpr double kStop = 0.998, kSolved = 0.99;
constexpr double kDigits = 0.88;  // of images, for the demonstration to end well

TrainSettings demo_settings(const std::string& backend) {
  TrainSettings s;
  s.backend = backend;
  s.task = "copying";
  s.model = "gru";
  s.task_settings = {{"symbols", 3}, {"alphabet", 4}, {"lag", 10}};
  s.hidden = 48;
  s.learning_rate = 3e-3;
  return s;
}

void heading(int number, const char* text) { std::cout << fmt::format("{}. {}\n\n", number, text); }

// The same model on the same kind of data, small and in f64, where rounding hides nothing.
VerifyReport verified(const TrainSettings& s) {
  constexpr std::int64_t kBatch = 4, kHidden = 8;
  const auto task = make_task(s.task, {.settings = s.task_settings, .seed = s.seed, .dtype = Dtype::F64});
  const TaskBatch batch = task->batch(0, kBatch);
  const ReadyModel model =
      make_model(s.model, {.sizes = {task->spec().num_inputs, kHidden, task->spec().num_outputs},
                           .batch = kBatch,
                           .dtype = Dtype::F64,
                           .seed = s.seed});
  return verify(*model.module, *make_rule("D_RTRL"), batch.inputs, batch.targets, loss::cross_entropy,
                {.lags = 0});
}

void print_gradients(const VerifyReport& report) {
  std::cout << fmt::format("   {:<22} {:>8} {:>11}   {:<12} {}\n", "parameter", "cosine", "deviation",
                           "expected", "found");
  for (const VerifyReport::Leaf& leaf : report.leaves) {
    const VerifyReport::Measure& m = leaf.measures.front();
    std::cout << fmt::format("   {:<22} {:>8.4f} {:>11.1e}   {:<12} {}\n", to_string(leaf.id), m.cosine,
                             m.deviation, name(m.expected), name(m.verdict));
  }
  std::cout << "\n";
}

// The smallest of those that are not exact; none if all are.
std::optional<double> smallest_cosine(const VerifyReport& report) {
  std::optional<double> smallest;
  for (const VerifyReport::Leaf& leaf : report.leaves) {
    const VerifyReport::Measure& m = leaf.measures.front();
    if (leaf.alive && m.expected != Expectation::Exact) smallest = std::min(smallest.value_or(1.0), m.cosine);
  }
  return smallest;
}

// What follows from the table above; cosines as it shows them.
std::string gradients_text(const VerifyReport& report) {
  const std::optional<double> cosine = smallest_cosine(report);
  if (!cosine) return "   All of it must be exact, and is.\n";
  return fmt::format(
      "   What must be exact is exact. The rest is an approximation, with cosines of at least {:.4f}:\n"
      "   this rule does not follow influence from one unit through another; see `etrace verify`.\n",
      *cosine);
}

bool show_gradients(const TrainSettings& s) {
  const VerifyReport report = verified(s);
  heading(2, "Its gradient, computed forward in time, against backpropagation through time");
  print_gradients(report);
  for (const std::string& failure : report.failures()) std::cout << "   FAILED: " << failure << "\n";
  if (report.met()) std::cout << gradients_text(report);
  std::cout << "\n";
  return report.met();
}

bool show_training(Training& training) {
  heading(3, "Learning online to name three symbols, in order, ten steps after they were shown");
  Score check;
  double seconds = 0.0;
  {
    Progress progress(Progress::form_of(Progress::Stream::Output), 0, kMaxUpdates);
    while (training.updates() < kMaxUpdates && check.accuracy.value_or(0.0) < kStop) {
      const Score score = training.learn();
      progress.show(training.updates(), score.loss, score.accuracy);
      if (training.batches() % kDemoCheckEvery == 0) check = training.score(Part::Check, 4);
    }
    seconds = progress.seconds();
  }
  const Score result = training.score(Part::Final, 16);
  const bool solved = *result.accuracy >= kSolved;
  std::cout << fmt::format(
      "\n   {} after {} updates in {:.1f} s: accuracy {:.4f} on batches never trained on, where\n"
      "   guessing gives 0.25. The traces take {}, and would for sequences of any length.\n\n",
      solved ? "Solved" : "NOT SOLVED", training.updates(), seconds, *result.accuracy,
      bytes_text(training.trace_bytes()));
  return solved;
}

// A spiking network on data that comes with the library: handwritten digits, row by row. The run leaves a
// folder with a page.
bool show_data(const std::string& backend) {
  heading(4, "Learning online from real data: spiking neurons read handwritten digits, row by row");
  TrainSettings settings{.task = "sequential_digits", .model = "alif"};
  settings.backend = backend;
  settings.hidden = 128;
  settings.updates = 1200;
  settings.memory = 8.0;
  const char* given = std::getenv("ETRACE_RUNS");
  std::string runs = given == nullptr || *given == '\0' ? "runs" : given;
  if (runs == "none") runs.clear();
  RunPlan plan{.runs = runs,
               .command = {"train", "sequential_digits", "--model", "alif", "--hidden", "128", "--updates",
                           "1200", "--memory", "8"}};
  TerminalView view(false, Progress::Stream::Output);
  Run run(plan, resolved(settings), view);
  const RunResult result = run();
  if (result.reason == RunResult::Reason::Interrupted) return false;
  const double right = result.score.accuracy.value_or(0.0);
  std::cout << fmt::format(
      "\n   {:.1f} % of images that it never saw are named right; guessing gives {:.1f} %{}.\n",
      100.0 * right, 100.0 * result.judgement->guess.accuracy.value_or(0.0),
      right >= kDigits ? "" : fmt::format(": FEWER THAN {:.0f} %", 100.0 * kDigits));
  if (!result.folder.empty())
    std::cout << fmt::format("   The page of the run: {}/page.html\n", result.folder);
  std::cout << "\n";
  return right >= kDigits;
}

int run_demo(const std::string& backend) {
  const TrainSettings settings = demo_settings(backend);
  Training training(settings);
  heading(1, "A GRU, compiled into a learner that learns online");
  std::cout << training.summary() << "\n";
  const bool right = show_gradients(settings);
  const bool task = show_training(training), data = show_data(backend), solved = task && data;
  std::cout
      << "Next:\n"
         "   build/bin/etrace explain gru --html gru.html      what the compiler found, as a page\n"
         "   build/bin/etrace verify gru --html verify.html    how right the gradient is, lag by lag\n"
         "   build/bin/etrace train --help                     other tasks, models and rules, such as\n"
         "   build/bin/etrace train delayed_match --compare bptt,d_rtrl,pp_prop --seeds 3\n"
         "   build/bin/etrace train FILE.csv                   your own data: CSV, WAV folders, npz, .ts …\n"
         "   build/bin/etrace runs                             the runs so far\n";
  return right && solved ? 0 : 1;
}

}  // namespace

void add_demo(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("demo", "compile, verify and train a small recurrent network online");
  auto backend = std::make_shared<std::string>(default_backend());
  add_backend_option(*verb, *backend);
  verb->callback([backend, &status] { status.code = run_demo(*backend); });
}

}  // namespace etrace::cli
