// Mackey and Glass's chaotic series, and its value some steps ahead.
//   dx/dt = β·x(t − τ)/(1 + x(t − τ)^n) − γ·x,   β = 0.2, γ = 0.1, n = 10
// Solved by Runge and Kutta's method of fourth order in steps of 0.1 (the delayed value between two steps is
// their mean), sampled once per unit of time, from a constant past near 1.2 that the seed draws. The series
// has mean 0 and variance 1. Training sees its first part, checks and scores parts behind it.
#include <algorithm>
#include <cmath>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"

namespace etrace {

namespace {

std::vector<double> mackey_glass_series(double tau, double past, std::int64_t length) {
  constexpr double kBeta = 0.2, kGamma = 0.1, kPower = 10.0;
  constexpr std::int64_t kPerUnit = 10, kSettle = 500;
  const double h = 1.0 / kPerUnit;
  const auto lag = static_cast<std::size_t>(std::llround(tau * kPerUnit));
  std::vector<double> x(lag + 1, past), out;
  const auto slope = [&](double now, double then) {
    return kBeta * then / (1.0 + std::pow(then, kPower)) - kGamma * now;
  };
  for (std::int64_t t = 0; t < kSettle + length; ++t) {
    if (t >= kSettle) out.push_back(x.back());
    for (std::int64_t k = 0; k < kPerUnit; ++k) {
      const double now = x.back(), then = x[x.size() - 1 - lag], next = x[x.size() - lag];
      const double between = 0.5 * (then + next);
      const double k1 = slope(now, then), k2 = slope(now + 0.5 * h * k1, between),
                   k3 = slope(now + 0.5 * h * k2, between), k4 = slope(now + h * k3, next);
      x.push_back(now + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4));
    }
  }
  return out;
}

void standardise(std::vector<double>& x) {
  double mean = 0.0, square = 0.0;
  const auto n = static_cast<double>(x.size());
  for (const double v : x) mean += v / n;
  for (const double v : x) square += (v - mean) * (v - mean) / n;
  for (double& v : x) v = (v - mean) / std::sqrt(square);
}

class MackeyGlass : public Task {
 public:
  explicit MackeyGlass(const TaskOptions& o)
      : Task({.name = "mackey_glass",
              .num_inputs = 1,
              .num_outputs = 1,
              .steps = whole_setting(o, "steps"),
              .loss = "mse",
              .seed = o.seed,
              .dtype = o.dtype}),
        ahead_(whole_setting(o, "ahead")),
        scored_(std::max<std::int64_t>(1, spec().steps - whole_setting(o, "warm"))) {
    const double past = 1.2 + 0.1 * random::uniform(random::key(o.seed), {}, Dtype::F64).item<double>();
    series_ = mackey_glass_series(setting(o, "tau"), past, kParts * part_length());
    standardise(series_);
  }

 private:
  static constexpr std::int64_t kParts = 4;  // two for training, one for checks, one for the score
  std::int64_t part_length() const { return std::max<std::int64_t>(2000, 4 * (spec().steps + ahead_)); }

  TaskBatch draw(const Draw& d) const override {
    const std::int64_t steps = spec().steps, first = d.part == Part::Train   ? 0
                                                     : d.part == Part::Check ? 2
                                                                             : 3;
    const std::int64_t length = part_length() * (d.part == Part::Train ? 2 : 1);
    const Array starts = random::randint(d.key, {d.size}, 0, length - steps - ahead_ + 1);
    const Tensor start = starts.tensor();
    std::vector<double> seen, wanted;
    for (std::int64_t t = 0; t < steps; ++t)
      for (const std::int32_t s : start.data<std::int32_t>()) {
        const auto at = static_cast<std::size_t>(first * part_length() + s + t);
        const bool counts = t >= steps - scored_;
        seen.push_back(series_[at]);
        wanted.push_back(counts ? series_[at + static_cast<std::size_t>(ahead_)] : 0.0);
      }
    const Shape shape{steps, d.size, 1};
    return {array(seen, shape, spec().dtype), array(wanted, shape, spec().dtype),
            last_steps(steps, scored_, spec().dtype)};
  }

  std::int64_t ahead_, scored_;
  std::vector<double> series_;
};

const RegisterTask kMackeyGlass(
    {.name = "mackey_glass",
     .doc = "a chaotic series, some steps ahead",
     .settings = {{"steps", 100, 1, 1000000, true, "length of a sequence"},
                  {"ahead", 10, 1, 100000, true, "how far ahead the value is asked for"},
                  {"warm", 20, 0, 1000000, true, "steps at the start that are not scored"},
                  {"tau", 17, 1, 1000, false, "delay of the equation; chaotic from 16.8 on"}},
     .make = [](const TaskOptions& o) { return std::make_unique<MackeyGlass>(o); },
     .recipes = {{.model = "gru", .updates = 1500}},
     .solved = 0.05});

}  // namespace

}  // namespace etrace
