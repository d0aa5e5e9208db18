// What sequences of many lengths cost beside sequences of one: windows are compiled, not sequences, so the
// same few programs serve both (decision 0028).
//
//   lengths_bench [--backend native] [--sequences N]
//
// One learner is given N sequences of 250 steps, another N sequences of 1 to 499 steps in a shuffled order,
// in turns of a hundred so that both see the same machine. Printed is the time per step of both, their ratio,
// and how many programs each learner has.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/workloads.h"
#include "etrace/etrace.h"

namespace et = etrace;

namespace {

constexpr std::int64_t kMost = 499, kOne = 250;

double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec) + static_cast<double>(u.ru_utime.tv_usec) * 1e-6;
}

struct Side {
  explicit Side(const et::bench::Workload& w, std::int64_t batch, const std::string& backend)
      : learner(et::compile(*w.model, et::D_RTRL{}, et::Arrays{w.example}, options(batch, backend))),
        xs(w.inputs(1, kMost)),
        ys(w.targets(2, kMost)) {}
  static et::LearnerOptions options(std::int64_t batch, const std::string& backend) {
    et::LearnerOptions o;
    o.batch_size = batch;
    o.backend = backend;
    o.execution_window = 32;
    return o;
  }
  // The first steps of the data, without a copy.
  static et::Array first(const et::Array& all, std::int64_t steps) {
    return et::Array(et::Tensor::over({all.dtype(), all.shape().with(0, steps)}, all.tensor().bytes()));
  }
  void run(std::int64_t length) {
    const double start = cpu_seconds();
    learner.etrace_grad(first(xs, length), first(ys, length), et::loss::mse);
    seconds += cpu_seconds() - start;
    steps += length;
  }
  et::Learner learner;
  et::Array xs, ys;
  double seconds = 0.0;
  std::int64_t steps = 0;
};

void compare(const char* work, std::int64_t batch, const std::string& backend, std::int64_t sequences) {
  const et::bench::Workload w = et::bench::workload(work, batch);
  const et::bench::Workload twin = et::bench::workload(work, batch);
  Side one(w, batch, backend), many(twin, batch, backend);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(kMost));
  std::iota(lengths.begin(), lengths.end(), 1);
  std::shuffle(lengths.begin(), lengths.end(), std::mt19937(1));
  for (const std::int64_t n : lengths) many.run(n);  // every program is there
  one.run(kOne);
  one.seconds = many.seconds = 0.0;
  one.steps = many.steps = 0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    one.run(kOne);
    many.run(lengths[static_cast<std::size_t>(i) % lengths.size()]);
  }
  const double a = one.seconds / static_cast<double>(one.steps),
               b = many.seconds / static_cast<double>(many.steps);
  std::cout << fmt::format("{:<4} {:>5} {:>10} {:>14.3f} {:>14.3f} {:>6.3f} {:>9} {:>9}\n", work, batch,
                           sequences, a * 1e6, b * 1e6, b / a, one.learner.compiled().size(),
                           many.learner.compiled().size())
            << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  std::string backend = "native";
  std::int64_t sequences = 10'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--backend") backend = argv[i + 1];
    if (name == "--sequences") sequences = std::atoll(argv[i + 1]);
  }
  std::cout << "microseconds of CPU per step; programs: how many the learner has\n"
            << "work batch  sequences    of one length  of 499 lengths  ratio  programs  programs\n";
  compare("W1", 1, backend, sequences);
  compare("W1", 32, backend, sequences / 20);
  compare("W3", 1, backend, sequences / 10);
}
