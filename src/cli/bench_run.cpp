#include "cli/bench_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/engine.h"
#include "cli/sequence.h"
#include "cli/workloads.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "runtime/ceilings.h"

namespace etrace::bench {

namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr std::size_t kLargeBuffer = std::size_t{256} << 20U;

RuleOptions options_of(Rule r) {
  RuleOptions options;
  if (r == Rule::PpProp) options.set("decay_or_rank", 0.99);
  return options;
}

Learner learner_of(const Workload& w, const Row& row) {
  LearnerOptions how;
  how.batch_size = row.batch;
  how.execution_window = row.form == ExecutionForm::Step ? 1 : kWindow;
  how.vjp_method = row.rule == Rule::MultiStep ? VjpMethod::MultiStep : VjpMethod::SingleStep;
  how.backend = row.backend;
  return compile(*w.model, row.rule == Rule::PpProp ? "pp_prop" : "D_RTRL", Arrays{w.example}, how,
                 options_of(row.rule));
}

SequenceOptions driving(const Row& row) {
  SequenceOptions how{.reduction = Reduction::Sum};
  if (row.rule == Rule::MultiStep) how.chunk_size = kWindow;
  return how;
}

// (parameters…, xs, ys) -> (summed loss, gradients…): the model over the sequence and reverse mode back.
struct Bptt {
  Bptt(const Workload& w, const std::string& backend, const Array& xs, const Array& ys) {
    const Model m = trace_step(*w.model, Arrays{w.example}).model;
    const std::vector<std::size_t> params = cli::inputs_with(m, {Role::Param}),
                                   args = cli::inputs_with(m, {Role::Arg}),
                                   states = cli::inputs_with(m, {Role::Hidden, Role::Other});
    Avals types;
    for (const std::size_t i : params) {
      types.push_back(m.program.jaxpr.invars[i].aval);
      arguments.push_back(m.inputs[i].init);
    }
    for (const Array& a : {xs, ys}) {
      types.push_back(a.aval());
      arguments.push_back(a.tensor());
    }
    const Function total = [&](ArraySpan in) {
      Arrays init;
      for (const std::size_t i : states) init.push_back(m.inputs[i].init);
      const auto step = [&](ArraySpan carry, ArraySpan now) -> ScanResult {
        Arrays operands(m.inputs.size());
        for (std::size_t k = 0; k < params.size(); ++k) operands[params[k]] = in[k];
        for (std::size_t k = 0; k < states.size(); ++k) operands[states[k]] = carry[k];
        operands[args.front()] = now[0];
        const Arrays out = eval_jaxpr(m.program, operands);
        ScanResult r;
        for (const std::size_t i : states) r.carry.push_back(out[cli::output_of_state(m, m.inputs[i])]);
        r.ys = {loss::mse(out[0], now[1])};
        return r;
      };
      return Arrays{sum(scan(step, init, {in[params.size()], in[params.size() + 1]}).ys[0])};
    };
    Mask active(types.size(), false);
    std::fill_n(active.begin(), params.size(), true);
    run = std::make_unique<cli::OnBackend>(backend, "bptt",
                                           simplify(value_and_grad(make_jaxpr(total, types), active)));
  }

  Tensors arguments;
  std::unique_ptr<cli::OnBackend> run;
};

// What a step costs at least. An online rule takes the forward products and as many for the gradients;
// reverse mode through time also those that carry the signal back. Step by step a rule also passes over its
// traces, in windows once per window.
double limit_of(const Row& row, const Workload& w, std::size_t trace_bytes, Limits& limits) {
  const bool through_time = row.rule == Rule::Bptt || row.rule == Rule::MultiStep;
  const double products = (through_time ? 3.0 : 2.0) * 2.0 * w.multiply_adds / limits.fma_rate();
  if (row.rule == Rule::Bptt) return products;
  const double pass = limits.update_seconds(trace_bytes);
  return std::max(products, row.form == ExecutionForm::Step ? pass : pass / static_cast<double>(kWindow));
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

std::int64_t usual_steps(std::int64_t batch) {
  return batch == 1 ? 6 * kWindow : batch <= 32 ? 2 * kWindow : kWindow;
}

Measured measure(const Row& row, Limits& limits, double least_seconds) {
  set_num_threads(row.threads);
  const Workload w = workload(row.work, row.batch, row.units);
  const std::int64_t steps = row.steps != 0 ? row.steps : usual_steps(row.batch);
  // Long sequences come in pieces, as from a stream: the learner goes on where it was.
  const std::int64_t piece = row.rule == Rule::Bptt ? steps : std::min<std::int64_t>(steps, 30 * kWindow);
  reset_peak_memory();
  const std::size_t before = memory_now();
  const Array xs = w.inputs(1, piece), ys = w.targets(2, piece);
  Measured out;
  if (row.rule == Rule::Bptt) {
    init_all_states(*w.model, row.batch);
    const Bptt bptt(w, row.backend, xs, ys);
    out.seconds_per_step = best_seconds([&] { (*bptt.run)(bptt.arguments); }, least_seconds);
  } else {
    Learner learner = learner_of(w, row);
    out.trace_bytes = static_cast<std::size_t>(learner.trace_bytes());
    const std::int64_t pieces = (steps + piece - 1) / piece;
    const auto gradient = [&] {
      for (std::int64_t k = 0; k < pieces; ++k) learner.etrace_grad(xs, ys, loss::mse, driving(row));
    };
    out.seconds_per_step = best_seconds(gradient, least_seconds) * static_cast<double>(steps) /
                           static_cast<double>(pieces * piece);
  }
  out.seconds_per_step /= static_cast<double>(steps);
  out.grown_bytes = std::max(peak_memory(), before) - before;
  out.limit = limit_of(row, w, out.trace_bytes, limits);
  return out;
}

StartTimes start_times(const std::string& work, Rule rule, std::int64_t batch) {
  namespace fs = std::filesystem;
  const std::string folder =
      fs::temp_directory_path().string() + "/etrace-bench-" + std::to_string(::getpid());
  const char* own = std::getenv("ETRACE_CACHE_DIR");
  const std::string kept = own == nullptr ? "" : own;
  ::setenv("ETRACE_CACHE_DIR", folder.c_str(), 1);
  Row row{.work = work, .rule = rule, .batch = batch};
  const Workload w = workload(work, batch);
  const Array xs = w.inputs(1, kWindow), ys = w.targets(2, kWindow);
  const auto first_gradient = [&](const char* backend, double* build) {
    row.backend = backend;
    std::optional<Learner> learner;
    const double built = seconds_of([&] { learner.emplace(learner_of(w, row)); });
    if (build != nullptr) *build = built;
    return built + seconds_of([&] { learner->etrace_grad(xs, ys, loss::mse, driving(row)); });
  };
  StartTimes out;
  out.interpreted = first_gradient("interpreter", &out.build);
  fs::remove_all(folder);
  out.cold = first_gradient("native", nullptr);
  out.cached = first_gradient("native", nullptr);
  fs::remove_all(folder);
  own == nullptr ? ::unsetenv("ETRACE_CACHE_DIR") : ::setenv("ETRACE_CACHE_DIR", kept.c_str(), 1);
  return out;
}

std::vector<double> step_latencies(const std::string& work, Rule rule, const std::string& backend,
                                   std::int64_t steps) {
  const Workload w = workload(work, 1);
  Learner learner =
      learner_of(w, {.work = work, .rule = rule, .form = ExecutionForm::Step, .backend = backend});
  learner.bind_step(loss::mse);
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
