// The programs of a learner on both engines: microseconds per step of the workloads, step by step and in
// windows, beside one read-modify-write pass over the traces by as many threads; with what emitting and
// compiling took.
//
//   native_bench [--native] [--cpu] [--threads N] [FILTER …]
//
// Only rows whose name, say "W3 pp_prop b128 k32", has every FILTER in it. --native leaves the interpreter
// out; --cpu counts the time of the process in place of the clock's, for a machine that does other work too
// (with ETRACE_NUM_THREADS=1).
//
// --threads N asks what N threads would have to do, on any machine: each hand-over runs its parts one after
// the other and takes the time of each, the least of several runs. What is printed is the time of a window
// with one thread; then, in parts for N, the time outside of hand-overs and that of all parts, and how long N
// threads would take that are always awake, hand over in no time, and do not disturb each other.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <numeric>
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

// A context of so many threads that are one, and what it measured.
class Parts {
 public:
  explicit Parts(int threads) : threads_(threads) {}

  etp_context context() {
    return {threads_,
            [](void* self, std::int64_t parts, void (*f)(void*, std::int64_t), void* data) {
              static_cast<Parts*>(self)->hand_over(parts, f, data);
            },
            this, nullptr};
  }
  void begin() {
    at_ = 0;
    since_ = now();
  }
  void end() { least(between_, at_, now() - since_); }

  std::size_t hand_overs() const { return parts_.size(); }
  double serial() const { return std::accumulate(between_.begin(), between_.end(), 0.0); }
  double parallel() const {
    double sum = 0;
    for (const auto& each : parts_) sum = std::accumulate(each.begin(), each.end(), sum);
    return sum;
  }
  // As the pool deals them out: whoever is done takes the next part.
  double by_threads() const {
    double sum = 0;
    for (const auto& each : parts_) {
      std::vector<double> busy(static_cast<std::size_t>(threads_), 0.0);
      for (const double t : each) *std::min_element(busy.begin(), busy.end()) += t;
      sum += *std::max_element(busy.begin(), busy.end());
    }
    return sum;
  }

 private:
  static void least(std::vector<double>& all, std::size_t i, double t) {
    if (i == all.size()) all.push_back(t);
    all[i] = std::min(all[i], t);
  }
  void hand_over(std::int64_t parts, void (*f)(void*, std::int64_t), void* data) {
    least(between_, at_, now() - since_);
    if (at_ == parts_.size()) parts_.emplace_back();
    std::vector<double>& times = parts_[at_++];
    for (std::int64_t part = 0; part < parts; ++part) {
      const double start = now();
      f(data, part);
      least(times, static_cast<std::size_t>(part), now() - start);
    }
    since_ = now();
  }

  int threads_;
  std::size_t at_ = 0;  // hand-over of the run
  double since_ = 0;
  std::vector<std::vector<double>> parts_;
  std::vector<double> between_;  // before each hand-over, and behind the last
};

Parts measured(const Row& row, int threads) {
  const et::bench::Workload w = et::bench::workload(row.work, row.batch);
  const et::Learner learner = learner_of(row, w);
  const et::Program p = program_of(row, w, learner);
  Parts parts(threads);
  const auto native = et::native::compile_native(p, parts.context());
  const et::bench::Bound b = bind(p, w, row.steps);
  for (int i = 0; i < 15; ++i) {
    parts.begin();
    native->run(b.arguments.data(), b.results.data());
    parts.end();
  }
  return parts;
}
void run_parts(const Row& row, int threads) {
  const Parts alone = measured(row, 1), parts = measured(row, threads);
  const double one = alone.serial() + alone.parallel(), all = parts.serial() + parts.by_threads();
  std::cout << fmt::format("{:<31} {:>10.0f} {:>10} {:>10.0f} {:>10.0f} {:>10.0f} {:>7.2f}\n", row.name(),
                           one * 1e6, parts.hand_overs(), parts.serial() * 1e6, parts.parallel() * 1e6,
                           all * 1e6, one / all)
            << std::flush;
}
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
  int threads = 0;
  std::vector<std::string> filters;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--native") == 0)
      interpreter = false;
    else if (std::strcmp(argv[i], "--cpu") == 0)
      g_clock = CLOCK_PROCESS_CPUTIME_ID;
    else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
      threads = std::max(1, std::atoi(argv[++i]));
    else
      filters.emplace_back(argv[i]);
  }
  if (threads > 0) {
    std::cout
        << fmt::format("as {} threads; microseconds per window\n", threads)
        << "                                  1 thread hand-overs     serial   parallel by threads   ratio\n";
    for (const Row& row : et::bench::rows(filters)) run_parts(row, threads);
    return 0;
  }
  std::cout << fmt::format("{} threads; microseconds per step\n", et::default_pool().size())
            << "                                interpr.     native   ratio      pass   ratio compile ms  "
               "arena MB  "
               "arena MB\n";
  for (const Row& row : et::bench::rows(filters)) run(row, interpreter);
}
