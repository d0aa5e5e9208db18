// Learning: time per step of the workloads, step by step and in windows, against what one read and one write
// of the traces would take on this machine in the same run.
//
//   learn_bench [STEPS]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "etrace/etrace.h"

namespace et = etrace;

namespace {

constexpr std::int64_t kIn = 100, kOut = 10;

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// e ← 0.9·e + 1e-3 over a buffer of this size, per byte read and written.
double seconds_per_pass(std::size_t bytes) {
  std::vector<float> e(std::max<std::size_t>(bytes / sizeof(float), 1), 1.0F);
  float* data = e.data();
  const auto pass = [&] {
    for (std::size_t i = 0; i < e.size(); ++i) data[i] = 0.9F * data[i] + 1e-3F;
  };
  pass();
  const std::size_t rounds = 1 + (std::size_t{1} << 28) / std::max<std::size_t>(bytes, 1 << 16);
  const double t = seconds([&] {
    for (std::size_t r = 0; r < rounds; ++r) pass();
  });
  return t / static_cast<double>(rounds);
}

struct Workload {
  const char* name;
  const char* model;
  std::int64_t hidden, batch, steps;
  const char* rule;
};

void run(const Workload& w, std::int64_t steps) {
  const et::ReadyModel ready = et::make_model(w.model, {.sizes = {kIn, w.hidden, kOut}, .batch = w.batch});
  et::RuleOptions options;
  if (std::strcmp(w.rule, "pp_prop") == 0) options.set("decay_or_rank", 0.99);
  double step_time = 0.0;
  std::string line = fmt::format("{:<14} {:>4} {:>4}", w.name, w.batch, steps);
  std::size_t bytes = 0;
  for (const std::int64_t window : {std::int64_t{1}, std::int64_t{32}}) {
    et::LearnerOptions how;
    how.batch_size = w.batch;
    how.execution_window = window;
    et::Learner learner = et::compile(*ready.module, w.rule, ready.example, how, options);
    const et::Array xs = et::random::uniform(et::random::key(1), {steps, w.batch, kIn});
    const et::Array ys = et::random::normal(et::random::key(2), {steps, w.batch, kOut});
    learner.etrace_grad(xs, ys, et::loss::mse);  // compiled, and everything touched once
    double best = 1e9;
    for (int r = 0; r < 3; ++r)
      best = std::min(best, seconds([&] { learner.etrace_grad(xs, ys, et::loss::mse); }));
    if (window == 1) {
      step_time = best / static_cast<double>(steps);
      bytes = 0;
      for (const et::EligibilityTrace& t : learner.etraces())
        bytes += static_cast<std::size_t>(t.value.aval().bytes());
      const double pass = seconds_per_pass(bytes);
      line += fmt::format(" {:>9.2f} {:>10.1f} {:>10.1f} {:>6.2f}", static_cast<double>(bytes) / 1e6,
                          step_time * 1e6, pass * 1e6, step_time / pass);
    } else {
      const double per_step = best / static_cast<double>(steps);
      line += fmt::format(" {:>10.1f} {:>6.2f}", per_step * 1e6, step_time / per_step);
    }
  }
  std::cout << line << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 64;
  std::cout << "workload      batch steps  trace MB  step us    pass us  ratio  window us  gain\n";
  const Workload all[] = {
      {"W1 D_RTRL", "rnn", 256, 1, 0, "d_rtrl"},         {"W1 D_RTRL", "rnn", 256, 32, 0, "d_rtrl"},
      {"W2 D_RTRL", "gru", 512, 1, 0, "d_rtrl"},         {"W2 D_RTRL", "gru", 512, 32, 0, "d_rtrl"},
      {"W3 pp_prop", "lif_expon", 512, 1, 0, "pp_prop"}, {"W3 pp_prop", "lif_expon", 512, 128, 0, "pp_prop"},
      {"W3 D_RTRL", "lif_expon", 512, 1, 0, "d_rtrl"},   {"W3 D_RTRL", "lif_expon", 512, 32, 0, "d_rtrl"},
  };
  for (const Workload& w : all) run(w, steps);
}
