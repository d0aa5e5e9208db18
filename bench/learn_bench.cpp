// What a learner of the workloads is made of and takes: arena, equations, allocations and time of a step,
// beside one read-modify-write pass over the traces by as many threads; and of a step called from the host.
// `etrace bench` has the wider table of times.
//
//   learn_bench [--backend NAME] [--only W1,W3] [--quick]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <vector>

#include "bench/ceilings.h"
#include "bench/workloads.h"
#include "etrace/plan_text.h"

namespace et = etrace;

// Every allocation of the program is counted.
static std::size_t g_allocations = 0;
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++g_allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Row {
  const char *work, *rule;
  std::int64_t batch, steps;
};

void run(const Row& row, const std::string& backend, int rounds) {
  const et::bench::Workload w = et::bench::workload(row.work, row.batch);
  et::RuleOptions options;
  if (std::strcmp(row.rule, "pp_prop") == 0) options.set("decay_or_rank", 0.99);
  const et::Array xs = w.inputs(1, row.steps), ys = w.targets(2, row.steps);
  std::string line = fmt::format("{:<12} {:<8} {:>4} {:>4}", row.work, row.rule, row.batch, row.steps);
  double step_time = 0.0;
  for (const std::int64_t window : {std::int64_t{1}, std::int64_t{32}}) {
    et::LearnerOptions how;
    how.batch_size = row.batch;
    how.execution_window = window;
    how.backend = backend;
    et::Learner learner = et::compile(*w.model, row.rule, et::Arrays{w.example}, how, options);
    const auto gradient = [&] {
      learner.etrace_grad(xs, ys, et::loss::mse, {.reduction = et::Reduction::Sum});
    };
    gradient();  // compiled, and everything touched once
    double best = 1e9;
    for (int r = 0; r < rounds; ++r) best = std::min(best, seconds(gradient));
    const double per_step = best / static_cast<double>(row.steps);
    if (window != 1) {
      line += fmt::format(" {:>10.1f} {:>6.2f}", per_step * 1e6, step_time / per_step);
      continue;
    }
    step_time = per_step;
    const double pass =
        et::seconds_of_update(et::default_pool(), static_cast<std::size_t>(learner.trace_bytes()));
    const et::StepFunction f = [](et::StepCall& m, et::ArraySpan s) {
      return et::LossAndAux{et::loss::mse(m(s[0]), s[1])};
    };
    const et::LearnerPlan plan =
        learner.plan(f, et::Avals{w.example.aval(), {et::Dtype::F32, ys.shape().without(0)}});
    const et::ProgramCounts counts = et::counts_of(plan.at("step").jaxpr);
    const std::size_t arena = et::find_backend(backend).compile(plan.at("step"))->arena_bytes();
    // A step called from the host.
    learner.bind_step(et::loss::mse);
    const et::Array x = w.inputs(3, 1), y = w.targets(4, 1);
    const et::Array x1 = et::squeeze(x, {0}).tensor(), y1 = et::squeeze(y, {0}).tensor();
    learner.step(x1, y1);
    const std::size_t before = g_allocations;
    const int calls = row.batch == 1 ? 50 : 5;
    const double host = seconds([&] {
                          for (int i = 0; i < calls; ++i) learner.step(x1, y1);
                        }) /
                        calls;
    const std::size_t allocated = g_allocations - before;
    line += fmt::format(" {:>8.2f} {:>9.2f} {:>5} {:>5} {:>5.1f} {:>9.1f} {:>9.1f} {:>6.2f} {:>9.1f}",
                        static_cast<double>(learner.trace_bytes()) / 1e6, static_cast<double>(arena) / 1e6,
                        counts.equations, counts.products, static_cast<double>(allocated) / calls,
                        step_time * 1e6, pass * 1e6, step_time / pass, host * 1e6);
  }
  std::cout << line << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  std::string backend = "interpreter", only;
  int rounds = 3;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--backend" && i + 1 < argc) backend = argv[++i];
    if (a == "--only" && i + 1 < argc) only = argv[++i];
    if (a == "--quick") rounds = 1;
  }
  std::cout << fmt::format("backend {}, {} threads; times in microseconds per step\n", backend,
                           et::default_pool().size())
            << "                                traces     arena of a step    allocs     step      pass  "
               "ratio      "
               "host    window\n"
            << "                                    MB        MB  eqns prods per step                        "
               "         "
               "      of 32  gain\n";
  const Row all[] = {
      {"W1", "D_RTRL", 1, 200}, {"W1", "D_RTRL", 32, 100}, {"W2", "D_RTRL", 1, 100},
      {"W2", "D_RTRL", 32, 50}, {"W3", "pp_prop", 1, 200}, {"W3", "pp_prop", 128, 100},
      {"W3", "D_RTRL", 1, 100}, {"W3", "D_RTRL", 32, 50},  {et::bench::kW3Saturated, "pp_prop", 128, 100},
      {"W5", "D_RTRL", 1, 32},  {"W6", "D_RTRL", 8, 64},   {"W6", "pp_prop", 8, 64},
  };
  for (const Row& row : all)
    if (only.empty() || only.find(row.work) != std::string::npos) run(row, backend, rounds);
}
