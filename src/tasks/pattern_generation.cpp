// Pattern generation, as e-prop's authors have it: the same random spikes in every trial, and a sum of four
// sine waves to be drawn meanwhile, scored in every step. One step is 1 ms.
//   target(t) = Σ_k a_k·sin(2π·t/T_k + φ_k), T = steps·(1, 1/2, 1/3, 1/5), scaled to a largest value of 1
#include <cmath>
#include <numbers>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"
#include "tasks/spikes.h"

namespace etrace {

namespace {

class PatternGeneration : public Task {
 public:
  explicit PatternGeneration(const TaskOptions& o)
      : Task({.name = "pattern_generation",
              .num_inputs = whole_setting(o, "inputs"),
              .num_outputs = 1,
              .steps = whole_setting(o, "steps"),
              .loss = "mse",
              .seed = o.seed,
              .dtype = o.dtype,
              .frozen = true}),
        limits_(static_cast<std::size_t>(spec().num_inputs), spike_limit(setting(o, "rate") / 1000.0)) {}

 private:
  Array pattern(const Array& key) const {
    constexpr double kTurns[] = {1, 2, 3, 5};
    const std::vector<double> draws = random::uniform(key, {2, 4}, Dtype::F64).tensor().to_doubles();
    std::vector<double> out;
    double largest = 0.0;
    for (std::int64_t t = 0; t < spec().steps; ++t) {
      const double turn = 2.0 * std::numbers::pi * static_cast<double>(t) / static_cast<double>(spec().steps);
      double value = 0.0;
      for (std::size_t k = 0; k < 4; ++k)
        value += (0.5 + draws[k]) * std::sin(kTurns[k] * turn + 2.0 * std::numbers::pi * draws[4 + k]);
      largest = std::max(largest, std::abs(value));
      out.push_back(value);
    }
    for (double& v : out) v /= largest;
    return array(out, {spec().steps, 1, 1}, spec().dtype);
  }

  TaskBatch draw(const Draw& d) const override {
    const Tensor spikes =
        spike_trains(random::fold_in(d.key, 0), {spec().steps, 1, spec().num_inputs},
                     [&](std::int64_t, std::int64_t) -> const SpikeLimits& { return limits_; });
    return {tile(convert(spikes, spec().dtype), {1, d.size, 1}),
            tile(pattern(random::fold_in(d.key, 1)), {1, d.size, 1}), ones({spec().steps}, spec().dtype)};
  }

  SpikeLimits limits_;
};

const RegisterTask kPatternGeneration(
    {.name = "pattern_generation",
     .doc = "draw a sum of sine waves from a frozen pattern of spikes",
     .settings = {{"steps", 1000, 2, 1000000, true, "length of a trial"},
                  {"inputs", 100, 1, 100000, true, "channels of frozen spikes"},
                  {"rate", 50, 0, 1000, false, "spikes per second of a channel"}},
     .make = [](const TaskOptions& o) { return std::make_unique<PatternGeneration>(o); },
     .recipes = {{.model = "lif", .rule = "EProp", .hidden = 100, .batch = 1, .updates = 500}},
     .solved = 0.2});

}  // namespace

}  // namespace etrace
