// The programs of a learner on both engines: microseconds per step of the workloads, step by step and in
// windows, beside one read-modify-write pass over the traces by as many threads; with what emitting and
// compiling took.
//
//   native_bench [--native] [FILTER …]   only rows whose name, say "W3 pp_prop b128 k32", has every FILTER in
//                                        it; --native leaves the interpreter out
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "cli/workloads.h"
#include "native/compile.h"
#include "runtime/ceilings.h"

namespace et = etrace;

namespace {

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

struct Row {
  const char *work, *rule;
  std::int64_t batch, steps;
  std::string name() const { return fmt::format("{} {} b{} k{}", work, rule, batch, steps); }
};

// Buffers that live as long as the measurement.
struct Bound {
  std::vector<et::Tensor> memory;
  std::vector<const void*> arguments;
  std::vector<void*> results;
};
Bound bind(const et::Program& p, const et::bench::Workload& w, std::int64_t steps) {
  Bound b;
  const auto room = [&](const et::Aval& aval) {
    b.memory.push_back(et::Tensor::full(aval, 0.0));
    return reinterpret_cast<float*>(b.memory.back().writable());
  };
  const et::Array data[] = {w.inputs(1, steps), w.targets(2, steps)};
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    const et::Port& port = p.arguments[i];
    float* at = room(port.aval);
    b.arguments.push_back(at);
    if (port.role == et::PortRole::Slice)
      for (const et::Array& a : data)
        if (a.aval().bytes() == port.aval.bytes()) std::memcpy(at, a.tensor().bytes(), port.aval.bytes());
    if (port.role == et::PortRole::Weight) std::fill_n(at, port.aval.shape.size(), 1.0F);
    if (port.role == et::PortRole::Param) {
      const et::Array v =
          et::random::normal(et::random::key(i), port.aval.shape) / std::sqrt(1.0 + port.aval.shape[0]);
      std::memcpy(at, v.tensor().bytes(), port.aval.bytes());
    }
  }
  for (const et::Port& r : p.results) b.results.push_back(room(r.aval));
  for (const et::Alias& a : p.aliases) b.results[a.result] = const_cast<void*>(b.arguments[a.argument]);
  return b;
}

void run(const Row& row, bool interpreter) {
  const et::bench::Workload w = et::bench::workload(row.work, row.batch);
  et::RuleOptions options;
  if (std::strcmp(row.rule, "pp_prop") == 0) options.set("decay_or_rank", 0.99);
  et::LearnerOptions how;
  how.batch_size = row.batch;
  how.execution_window = row.steps;
  const et::Learner learner = et::compile(*w.model, row.rule, et::Arrays{w.example}, how, options);
  const et::StepFunction f = [](et::StepCall& m, et::ArraySpan s) -> et::LossAndAux {
    return {et::loss::mse(m(s[0]), s[1])};
  };
  const et::Avals slices{w.example.aval(), {et::Dtype::F32, w.targets(2, 1).shape().without(0)}};
  const et::LearnerPlan plan = learner.plan(f, slices, row.steps);
  const et::Program& p = plan.at(row.steps == 1 ? "step" : "window");
  const std::shared_ptr<const et::Runnable> interpreted = et::find_backend("interpreter").compile(p);
  std::shared_ptr<const et::Runnable> native;
  const double compiling = seconds([&] { native = et::native::compile_native(p); });
  const Bound a = bind(p, w, row.steps), b = bind(p, w, row.steps);
  const double fast = best_of([&] { native->run(b.arguments.data(), b.results.data()); });
  const double slow =
      interpreter ? best_of([&] { interpreted->run(a.arguments.data(), a.results.data()); }) : 0.0;
  const double pass =
      et::seconds_of_update(et::default_pool(), static_cast<std::size_t>(learner.trace_bytes()));
  const double per = 1e6 / static_cast<double>(row.steps);
  std::cout << fmt::format(
                   "{:<22} {:>10.1f} {:>10.1f} {:>7.2f} {:>9.1f} {:>7.2f} {:>10.0f} {:>9.2f} {:>9.2f}\n",
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
    else
      filters.emplace_back(argv[i]);
  }
  std::cout << fmt::format("{} threads; microseconds per step\n", et::default_pool().size())
            << "                       interpr.     native   ratio      pass   ratio compile ms  arena MB  "
               "arena MB\n";
  std::vector<Row> all;
  for (const auto& [work, rule] : std::vector<std::pair<const char*, const char*>>{{"W1", "D_RTRL"},
                                                                                   {"W2", "D_RTRL"},
                                                                                   {"W3", "D_RTRL"},
                                                                                   {"W1", "pp_prop"},
                                                                                   {"W2", "pp_prop"},
                                                                                   {"W3", "pp_prop"}})
    for (const std::int64_t batch : {1, 32, 128})
      for (const std::int64_t steps : {1, 32})
        if (batch < 128 || std::strcmp(rule, "D_RTRL") != 0) all.push_back({work, rule, batch, steps});
  for (const Row& row : all) {
    const std::string name = row.name();
    if (std::all_of(filters.begin(), filters.end(),
                    [&](const std::string& f) { return (name + " ").find(f) != std::string::npos; }))
      run(row, interpreter);
  }
}
