// The programs of a learner on both engines: microseconds per step of the workloads, step by step and in
// windows, with what emitting and compiling took.
//
//   native_bench [FILTER]        only workloads whose name contains FILTER
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <vector>

#include "etrace/etrace.h"
#include "native/compile.h"

namespace et = etrace;

namespace {

constexpr std::int64_t kIn = 100, kOut = 10;

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_of(const std::function<void()>& f) {
  f();
  double best = 1e9, total = 0;
  for (int i = 0; i < 50 && (total < 0.6 || i < 3); ++i) {
    const double t = seconds(f);
    best = std::min(best, t);
    total += t;
  }
  return best;
}

struct Workload {
  const char *name, *model, *rule;
  std::int64_t hidden, batch, steps;
};

// Buffers that live as long as the measurement.
struct Bound {
  std::vector<std::vector<float>> memory;
  std::vector<const void*> arguments;
  std::vector<void*> results;
};
Bound bind(const et::Program& p, double rate) {
  Bound b;
  const auto room = [&](const et::Aval& aval) {
    b.memory.emplace_back(aval.bytes() / sizeof(float) + 16);
    return b.memory.back().data();
  };
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    const et::Aval& aval = p.arguments[i].aval;
    float* at = room(aval);
    const bool spikes = rate > 0 && p.arguments[i].role == et::PortRole::Slice && aval.shape.back() == kIn;
    if (aval.dtype == et::Dtype::F32) {
      const et::Array draw = et::random::uniform(et::random::key(i), aval.shape);
      const et::Array x = spikes ? et::convert(draw < rate, et::Dtype::F32) : (draw - 0.5) * 0.1;
      std::memcpy(at, x.tensor().bytes(), aval.bytes());
    }
    b.arguments.push_back(at);
  }
  for (const et::Port& r : p.results) b.results.push_back(room(r.aval));
  for (const et::Alias& a : p.aliases) b.results[a.result] = const_cast<void*>(b.arguments[a.argument]);
  return b;
}

void run(const Workload& w) {
  const et::ReadyModel ready = et::make_model(w.model, {.sizes = {kIn, w.hidden, kOut}, .batch = w.batch});
  et::RuleOptions options;
  if (std::strcmp(w.rule, "pp_prop") == 0) options.set("decay_or_rank", 0.99);
  et::LearnerOptions how;
  how.batch_size = w.batch;
  how.execution_window = w.steps;
  const et::Learner learner = et::compile(*ready.module, w.rule, ready.example, how, options);
  const et::StepFunction f = [](et::StepCall& m, et::ArraySpan s) -> et::LossAndAux {
    return {et::loss::mse(m(s[0]), s[1])};
  };
  const et::Avals slices{{et::Dtype::F32, {w.batch, kIn}}, {et::Dtype::F32, {w.batch, kOut}}};
  const et::LearnerPlan plan = learner.plan(f, slices, w.steps);
  const et::Program& p = plan.at(w.steps == 1 ? "step" : "window");
  std::shared_ptr<const et::Runnable> interpreted, native;
  const double making = seconds([&] { interpreted = et::find_backend("interpreter").compile(p); });
  const double compiling = seconds([&] { native = et::native::compile_native(p); });
  const double rate = std::strncmp(w.model, "lif", 3) == 0 ? 0.1 : 0.0;
  const Bound a = bind(p, rate), b = bind(p, rate);
  const double slow = best_of([&] { interpreted->run(a.arguments.data(), a.results.data()); });
  const double fast = best_of([&] { native->run(b.arguments.data(), b.results.data()); });
  const double per = 1e6 / static_cast<double>(w.steps);
  std::cout << fmt::format(
                   "{:<12} {:>4} {:>4} {:>12.1f} {:>10.1f} {:>7.2f} {:>10.0f} {:>10.0f} {:>9.2f} {:>9.2f}\n",
                   w.name, w.batch, w.steps, slow * per, fast * per, slow / fast, making * 1e3,
                   compiling * 1e3, static_cast<double>(interpreted->arena_bytes()) / 1e6,
                   static_cast<double>(native->arena_bytes()) / 1e6)
            << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  std::cout << "workload    batch steps  interpr. us  native us   ratio    make ms compile ms  arena MB  "
               "arena MB\n";
  const Workload all[] = {
      {"W1 D_RTRL", "rnn", "d_rtrl", 256, 1, 1},
      {"W1 D_RTRL", "rnn", "d_rtrl", 256, 1, 32},
      {"W1 D_RTRL", "rnn", "d_rtrl", 256, 32, 1},
      {"W1 D_RTRL", "rnn", "d_rtrl", 256, 32, 32},
      {"W2 D_RTRL", "gru", "d_rtrl", 512, 1, 32},
      {"W2 D_RTRL", "gru", "d_rtrl", 512, 32, 32},
      {"W3 pp_prop", "lif_expon", "pp_prop", 512, 1, 1},
      {"W3 pp_prop", "lif_expon", "pp_prop", 512, 1, 32},
      {"W3 pp_prop", "lif_expon", "pp_prop", 512, 128, 32},
      {"W3 D_RTRL", "lif_expon", "d_rtrl", 512, 1, 32},
      {"W3 D_RTRL", "lif_expon", "d_rtrl", 512, 32, 32},
  };
  for (const Workload& w : all)
    if (argc < 2 || std::strstr(w.name, argv[1]) != nullptr) run(w);
}
