// The programs of a learner on both engines: microseconds per step of the workloads, step by step and in
// windows, beside one read-modify-write pass over the traces by as many threads; with what emitting and
// compiling took.
//
//   native_bench [--native] [--cpu] [FILTER …]
//
// Only rows whose name, say "W3 pp_prop b128 k32", has every FILTER in it. --native leaves the interpreter
// out;
// --cpu counts the time of the process in place of the clock's, for a machine that does other work too
// (with ETRACE_NUM_THREADS=1).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/native_rows.h"
#include "native/compile.h"

namespace et = etrace;

namespace {

clockid_t g_clock = CLOCK_MONOTONIC;

double now() {
  timespec t{};
  ::clock_gettime(g_clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(const std::function<void()>& f) {
  const double start = now();
  f();
  return now() - start;
}

double best_of(const std::function<void()>& f) {
  f();
  double best = 1e9, total = 0;
  for (int i = 0; i < 20000 && (total < 0.6 || i < 3); ++i) {
    const double t = seconds(f);
    best = std::min(best, t);
    total += t;
  }
  return best;
}

using et::bench::Row;

void run(const Row& row, bool interpreter) {
  const et::bench::Workload w = et::bench::workload(row.work, row.batch);
  const et::Learner learner = learner_of(row, w);
  const et::Program p = program_of(row, w, learner);
  const std::shared_ptr<const et::Runnable> interpreted = et::find_backend("interpreter").compile(p);
  std::shared_ptr<const et::Runnable> native;
  const double compiling = seconds([&] { native = et::native::compile_native(p); });
  const et::bench::Bound a = bind(p, w, row.steps), b = bind(p, w, row.steps);
  const double fast = best_of([&] { native->run(b.arguments.data(), b.results.data()); });
  const double slow =
      interpreter ? best_of([&] { interpreted->run(a.arguments.data(), a.results.data()); }) : 0.0;
  const double pass =
      et::seconds_of_update(et::default_pool(), static_cast<std::size_t>(learner.trace_bytes()));
  const double per = 1e6 / static_cast<double>(row.steps);
  std::cout << fmt::format(
                   "{:<31} {:>10.1f} {:>10.1f} {:>7.2f} {:>9.1f} {:>7.2f} {:>10.0f} {:>9.2f} {:>9.2f}\n",
                   row.name(), slow * per, fast * per, slow / fast, pass * 1e6, fast * per / pass / 1e6,
                   compiling * 1e3, static_cast<double>(interpreted->arena_bytes()) / 1e6,
                   static_cast<double>(native->arena_bytes()) / 1e6)
            << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  bool interpreter = true;
  std::vector<std::string> filters;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--native") == 0)
      interpreter = false;
    else if (std::strcmp(argv[i], "--cpu") == 0)
      g_clock = CLOCK_PROCESS_CPUTIME_ID;
    else
      filters.emplace_back(argv[i]);
  }
  std::cout << fmt::format("{} threads; microseconds per step\n", et::default_pool().size())
            << "                                interpr.     native   ratio      pass   ratio compile ms  "
               "arena MB  "
               "arena MB\n";
  for (const Row& row : et::bench::rows(filters)) run(row, interpreter);
}
