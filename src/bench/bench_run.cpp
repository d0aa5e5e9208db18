#include "bench/bench_run.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/ceilings.h"
#include "bench/workloads.h"
#include "etrace/error.h"
#include "session/program_run.h"

namespace etrace::bench {

namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr std::size_t kLargeBuffer = std::size_t{256} << 20U;

std::string rule_name(Rule r) { return r == Rule::PpProp ? "pp_prop" : "D_RTRL"; }

RuleOptions options_of(Rule r) {
  RuleOptions options;
  if (r == Rule::PpProp) options.set("decay_or_rank", 0.99);
  return options;
}

Learner learner_of(const Workload& w, const Row& row) {
  LearnerOptions how;
  how.batch_size = row.batch;
  if (row.form == ExecutionForm::Step)
    how.execution_window = 1;
  else if (row.window != 0)
    how.execution_window = row.window;
  how.vjp_method = row.rule == Rule::MultiStep ? VjpMethod::MultiStep : VjpMethod::SingleStep;
  how.backend = row.backend;
  return compile(*w.model, rule_name(row.rule), Arrays{w.example}, how, options_of(row.rule));
}

SequenceOptions driving(const Row& row) {
  SequenceOptions how{.reduction = Reduction::Sum};
  if (row.rule == Rule::MultiStep) how.chunk_size = kWindow;
  return how;
}

StepFunction squared_error() {
  return [](StepCall& model, ArraySpan s) { return LossAndAux{loss::mse(model(s[0]), s[1])}; };
}

// The model over the sequence and reverse mode back, as one program.
class Bptt {
 public:
  Bptt(const Workload& w, const std::string& backend, const Array& xs, const Array& ys)
      : model_(trace_step(*w.model, Arrays{w.example}).model), plan_(model_), run_(program(backend, xs, ys)) {
    for (const ModelPlan::Start& p : plan_.params()) run_.set(PortRole::Param, p.port.name, p.value);
    run_.set(PortRole::Slice, "slice0", xs.tensor());
    run_.set(PortRole::Slice, "slice1", ys.tensor());
  }
  // Every sequence from the first states.
  void operator()() {
    for (const ModelPlan::Start& s : plan_.states()) run_.set(PortRole::State, s.port.name, s.value);
    run_();
  }

 private:
  ProgramRun program(const std::string& backend, const Array& xs, const Array& ys) const {
    const Avals slices{{xs.dtype(), xs.shape().without(0)}, {ys.dtype(), ys.shape().without(0)}};
    const StepProgram step = StepProgram::trace(model_, squared_error(), slices);
    return {find_backend(backend), lean(plan_.bptt(step, slices, {.steps = xs.shape()[0]}))};
  }

  Model model_;
  ModelPlan plan_;
  ProgramRun run_;
};

// What a step costs at least. An online rule takes the forward products and as many for the gradients;
// reverse mode through time also those that carry the signal back. Step by step a rule also passes over its
// traces, in windows once per window.
double limit_of(const Row& row, const Workload& w, const Measured& m, Limits& limits) {
  const bool through_time = row.rule == Rule::Bptt || row.rule == Rule::MultiStep;
  const double products = (through_time ? 3.0 : 2.0) * 2.0 * w.multiply_adds / limits.fma_rate();
  if (row.rule == Rule::Bptt) return products;
  return std::max(products, limits.update_seconds(m.trace_bytes) / static_cast<double>(m.window));
}

std::size_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word, rest;
  while (status >> word) {
    std::size_t kilobytes = 0;
    if (word == field && status >> kilobytes) return kilobytes * 1024;
    std::getline(status, rest);
  }
  return 0;
}

}  // namespace

const char* name(Rule r) {
  constexpr const char* names[] = {"D_RTRL", "pp_prop", "multi_step", "BPTT"};
  return names[static_cast<std::size_t>(r)];
}
const char* name(ExecutionForm f) { return f == ExecutionForm::Step ? "step" : "window"; }

double best_seconds(const std::function<void()>& f, double least) {
  f();
  double best = 1e9, total = 0;
  for (int i = 0; i < 2 || (total < least && i < 100000); ++i) {
    const double t = seconds_of(f);
    best = std::min(best, t);
    total += t;
  }
  return best;
}

Limits::Limits(int threads) : pool_(std::make_unique<ThreadPool>(threads)) {}

double Limits::update_seconds(std::size_t bytes) {
  const auto [it, is_new] = passes_.try_emplace(bytes, 0.0);
  if (is_new) it->second = seconds_of_update(*pool_, bytes);
  return it->second;
}
double Limits::update_bandwidth() {
  return 2.0 * static_cast<double>(kLargeBuffer) / update_seconds(kLargeBuffer);
}
double Limits::copy_bandwidth() {
  return 2.0 * static_cast<double>(kLargeBuffer) / seconds_of_copy(*pool_, kLargeBuffer);
}
double Limits::fma_rate() {
  if (fma_ == 0.0) fma_ = etrace::fma_rate(*pool_);
  return fma_;
}
double Limits::hand_over(double alone) const { return seconds_of_hand_over(*pool_, alone); }

namespace {

constexpr std::int64_t kPieceSteps = 960;

// Whole windows: as many steps as suit the batch, at least one.
std::int64_t usual_steps(std::int64_t batch, std::int64_t window) {
  const std::int64_t least = batch == 1 ? 192 : batch <= 32 ? 64 : 32;
  return (least + window - 1) / window * window;
}

double seconds_of_bptt(const Workload& w, const Row& row, std::int64_t steps, double least_seconds) {
  init_all_states(*w.model, row.batch);
  Bptt bptt(w, row.backend, w.inputs(1, steps), w.targets(2, steps));
  return best_seconds([&] { bptt(); }, least_seconds);
}

// What the process has now, less what earlier rows left unused: that would not count as growth.
std::size_t start_of_growth() {
  ::malloc_trim(0);
  reset_peak_memory();
  return memory_now();
}

}  // namespace

Measured measure(const Row& row, Limits& limits, double least_seconds) {
  set_num_threads(row.threads);
  const Workload w = workload(row.work, row.batch, row.units);
  const std::size_t before = start_of_growth();
  Measured out;
  if (row.rule == Rule::Bptt) {
    out.window = row.steps != 0 ? row.steps : usual_steps(row.batch, kWindow);
    out.seconds_per_step =
        seconds_of_bptt(w, row, out.window, least_seconds) / static_cast<double>(out.window);
  } else {
    Learner learner = learner_of(w, row);
    out.trace_bytes = static_cast<std::size_t>(learner.trace_bytes());
    out.window = row.rule == Rule::MultiStep ? kWindow : learner.execution().window;
    std::int64_t steps = row.steps != 0 ? row.steps : usual_steps(row.batch, out.window);
    // On a device several windows: data of the next one goes there while one runs.
    if (find_backend(row.backend).memory() != nullptr) steps = std::max(steps, 8 * out.window);
    // Long sequences come in pieces of whole windows, as from a stream: the learner goes on where it was.
    const std::int64_t windows = std::max<std::int64_t>(1, kPieceSteps / out.window);
    const std::int64_t piece = std::min(steps, windows * out.window), pieces = (steps + piece - 1) / piece;
    const Array xs = w.inputs(1, piece), ys = w.targets(2, piece);
    const auto gradient = [&] {
      for (std::int64_t k = 0; k < pieces; ++k) learner.etrace_grad(xs, ys, loss::mse, driving(row));
    };
    out.seconds_per_step = best_seconds(gradient, least_seconds) / static_cast<double>(pieces * piece);
    out.window = std::min(out.window, piece);
  }
  out.grown_bytes = std::max(peak_memory(), before) - before;
  out.limit = limit_of(row, w, out, limits);
  return out;
}

namespace {

// An empty folder for compiled code, for as long as it lives.
class OwnCache {
 public:
  OwnCache() {
    if (const char* own = std::getenv(kVariable)) kept_ = own;
    std::filesystem::remove_all(folder_);
    ::setenv(kVariable, folder_.c_str(), 1);
  }
  ~OwnCache() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    kept_ ? ::setenv(kVariable, kept_->c_str(), 1) : ::unsetenv(kVariable);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  static constexpr const char* kVariable = "ETRACE_CACHE_DIR";
  std::optional<std::string> kept_;
  const std::string folder_ =
      std::filesystem::temp_directory_path().string() + "/etrace-bench-" + std::to_string(::getpid());
};

struct FirstGradient {
  double build = 0.0, in_all = 0.0;
};
FirstGradient first_gradient(const Workload& w, const Row& row) {
  const Array xs = w.inputs(1, row.steps), ys = w.targets(2, row.steps);
  std::optional<Learner> learner;
  FirstGradient out;
  out.build = seconds_of([&] { learner.emplace(learner_of(w, row)); });
  out.in_all = out.build + seconds_of([&] { learner->etrace_grad(xs, ys, loss::mse, driving(row)); });
  return out;
}

// The learner, then what its first gradient does before it runs: the program of a window, and its code.
double seconds_to_code(const Workload& w, const Row& row) {
  const Avals slices{w.example.aval(), {Dtype::F32, w.targets(2, 1).shape().without(0)}};
  const StepFunction step = squared_error();
  WindowForm form;
  if (row.window > 1) form.steps = row.window;
  return seconds_of([&] {
    const Learner learner = learner_of(w, row);
    const auto rule = make_rule(rule_name(row.rule), options_of(row.rule));
    const PlanBuilder builder(learner.graph(), *rule, VjpMethod::SingleStep);
    find_backend(row.backend).compile(lean(builder.window(builder.objective(step, slices), slices, form)));
  });
}

}  // namespace

StartTimes start_times(const std::string& work, Rule rule, std::int64_t batch, int repeats) {
  const OwnCache cache;
  Workload w;
  StartTimes out;
  out.model = seconds_of([&] { w = workload(work, batch); });
  const Row step{
      .work = work, .rule = rule, .batch = batch, .backend = "interpreter", .steps = 1, .window = kWindow};
  Row window = step, native = step;
  window.steps = native.steps = kWindow;
  native.backend = "native";
  out.cold = seconds_to_code(w, native);
  const auto keep_best = [](double& best, double now) { best = best == 0.0 ? now : std::min(best, now); };
  for (int i = 0; i < repeats; ++i) {
    const FirstGradient one = first_gradient(w, step);
    keep_best(out.build, one.build);
    keep_best(out.first_step, one.in_all);
    keep_best(out.first_window, first_gradient(w, window).in_all);
    keep_best(out.cached, seconds_to_code(w, native));
    keep_best(out.cached_window, first_gradient(w, native).in_all);
  }
  return out;
}

SparseMeasured measure_sparse(const SparseRow& row) {
  constexpr std::int64_t kSteps = 32;
  set_num_threads(row.threads);
  const std::size_t before = start_of_growth();
  const auto grown = [&](std::size_t bytes) { return std::max(bytes, before) - before; };
  SparseMeasured out;
  const Workload w = workload("W5", 1, row.synapses / kSparseInputs);
  out.model_bytes = grown(memory_now());
  Learner learner = learner_of(w, {.work = "W5"});
  out.learner_bytes = grown(memory_now()) - std::min(grown(memory_now()), out.model_bytes);
  const auto optimizer = optim::make(row.optimizer, {.learning_rate = 1e-6});
  optimizer->bind(*w.model);
  const Array xs = w.inputs(1, kSteps), ys = w.targets(2, kSteps);
  const auto train = [&] {
    if (row.in_program)
      learner.etrace_train(xs, ys, loss::mse, *optimizer);
    else
      optimizer->update(learner.etrace_grad(xs, ys, loss::mse).grads);
  };
  out.seconds_per_step = best_seconds(train, 0.0) / static_cast<double>(kSteps);
  out.peak_bytes = grown(peak_memory());
  return out;
}

std::vector<double> step_latencies(const std::string& work, Rule rule, const std::string& backend,
                                   std::int64_t steps) {
  const Workload w = workload(work, 1);
  Learner learner =
      learner_of(w, {.work = work, .rule = rule, .form = ExecutionForm::Step, .backend = backend});
  // On a device the gradient stays there, and an optimiser uses it.
  optim::SGD sgd(*w.model, 1e-6);
  learner.bind_step(loss::mse, find_backend(backend).memory() != nullptr ? &sgd : nullptr);
  constexpr std::int64_t kDifferent = 64;
  Arrays xs, ys;
  const Array all_xs = w.inputs(3, kDifferent), all_ys = w.targets(4, kDifferent);
  for (std::int64_t t = 0; t < kDifferent; ++t) {
    xs.emplace_back(squeeze(slice_axis(all_xs, 0, t, t + 1), {0}).tensor());
    ys.emplace_back(squeeze(slice_axis(all_ys, 0, t, t + 1), {0}).tensor());
  }
  std::vector<double> times(static_cast<std::size_t>(steps));
  for (std::size_t t = 0; t < static_cast<std::size_t>(kDifferent); ++t) learner.step(xs[t], ys[t]);
  for (std::size_t t = 0; t < times.size(); ++t) {
    const std::size_t k = t % static_cast<std::size_t>(kDifferent);
    const auto start = std::chrono::steady_clock::now();
    learner.step(xs[k], ys[k]);
    times[t] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::sort(times.begin(), times.end());
  return times;
}

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5\n"; }
std::size_t peak_memory() { return status_bytes("VmHWM:"); }
std::size_t memory_now() { return status_bytes("VmRSS:"); }

}  // namespace etrace::bench
