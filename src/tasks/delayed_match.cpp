// Delayed match to sample: spikes show a direction in the sample period and one in the test period, with a
// delay between; label 1 if they are the same, else 0, scored in the test period. Both happen with
// probability ½; a direction that does not match is any of the others with equal probability.
// A channel spikes in a step with probability
//   background + rate·tuning(channel, direction) in sample and test,   background elsewhere.
// Two forms of tuning:
//   delayed_match             two directions, opposite ones; each has half of the channels to itself
//   delayed_match_von_mises   preferred directions all around the circle; e^(κ·cos Δ)/e^κ at the angle Δ
// There one step is 1 ms, so that 100 Hz are a probability of 0.1.
#include <cmath>
#include <numbers>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"
#include "tasks/spikes.h"

namespace etrace {

namespace {

using Tuning = double (*)(const TaskOptions&, double channel, double direction);  // both in turns, [0, 1)

double half_of_channels(const TaskOptions&, double channel, double direction) {
  return std::floor(2.0 * channel) == std::floor(2.0 * direction) ? 1.0 : 0.0;
}

double von_mises(const TaskOptions& o, double channel, double direction) {
  const double angle = 2.0 * std::numbers::pi * (channel - direction);
  return std::exp(setting(o, "kappa") * (std::cos(angle) - 1.0));
}

struct Periods {
  std::int64_t fixation, sample, delay, test;
  std::int64_t steps() const { return fixation + sample + delay + test; }
};
Periods periods(const TaskOptions& o) {
  return {whole_setting(o, "fixation"), whole_setting(o, "sample"), whole_setting(o, "delay"),
          whole_setting(o, "test")};
}

class DelayedMatch : public Task {
 public:
  DelayedMatch(std::string name, const TaskOptions& o, std::int64_t directions, Tuning tuning)
      : Task({.name = std::move(name),
              .num_inputs = whole_setting(o, "inputs"),
              .num_outputs = 2,
              .steps = periods(o).steps(),
              .seed = o.seed,
              .dtype = o.dtype}),
        periods_(periods(o)),
        directions_(directions),
        background_(static_cast<std::size_t>(spec().num_inputs), spike_limit(setting(o, "background"))) {
    for (std::int64_t d = 0; d < directions; ++d) tuned_.push_back(limits_of(o, d, tuning));
  }

 private:
  SpikeLimits limits_of(const TaskOptions& o, std::int64_t direction, Tuning tuning) const {
    SpikeLimits row;
    for (std::int64_t c = 0; c < spec().num_inputs; ++c) {
      const double channel = static_cast<double>(c) / static_cast<double>(spec().num_inputs);
      const double turns = static_cast<double>(direction) / static_cast<double>(directions_);
      row.push_back(spike_limit(setting(o, "background") + setting(o, "rate") * tuning(o, channel, turns)));
    }
    return row;
  }

  const SpikeLimits& limits_at(std::int64_t step, std::int32_t sample, std::int32_t test) const {
    const std::int64_t since_sample = step - periods_.fixation;
    if (since_sample >= 0 && since_sample < periods_.sample) return tuned_[static_cast<std::size_t>(sample)];
    const bool in_test = step >= spec().steps - periods_.test;
    return in_test ? tuned_[static_cast<std::size_t>(test)] : background_;
  }

  TaskBatch draw(const Draw& d) const override {
    auto part = [&](int i) { return random::fold_in(d.key, i); };
    const Array sample = random::randint(part(0), {d.size}, 0, directions_);
    const Array match = random::randint(part(1), {d.size}, 0, 2);
    const Array turn = random::randint(part(2), {d.size}, 1, directions_);  // to a direction that differs
    const Array count = full({}, directions_, Dtype::I32);
    const Array test = where(equal_to(match, 1), sample, (sample + turn) % count);
    const Tensor from = sample.tensor(), to = test.tensor();
    const auto first = from.data<std::int32_t>(), second = to.data<std::int32_t>();
    const Tensor shown = spike_trains(part(3), {spec().steps, d.size, spec().num_inputs},
                                      [&](std::int64_t t, std::int64_t b) -> const SpikeLimits& {
                                        const auto i = static_cast<std::size_t>(b);
                                        return limits_at(t, first[i], second[i]);
                                      });
    const Array scored = last_steps(spec().steps, periods_.test, Dtype::I32);
    return {convert(shown, spec().dtype), expand_dims(scored, {1}) * match, convert(scored, spec().dtype)};
  }

  Periods periods_;
  std::int64_t directions_;
  SpikeLimits background_;
  std::vector<SpikeLimits> tuned_;  // per direction
};

// Settings of both forms, with the values of one of them.
struct Values {
  double inputs, fixation, sample, delay, test, rate, background;
};
std::vector<TaskSetting> common_settings(const Values& v) {
  constexpr double kLongest = 1000000;
  return {{"inputs", v.inputs, 2, 100000, true, "channels"},
          {"fixation", v.fixation, 0, kLongest, true, "steps before the sample"},
          {"sample", v.sample, 1, kLongest, true, "steps of the sample"},
          {"delay", v.delay, 0, kLongest, true, "steps between sample and test"},
          {"test", v.test, 1, kLongest, true, "steps of the test, which are scored"},
          {"rate", v.rate, 0, 1, false, "spikes per step of a channel that prefers the direction"},
          {"background", v.background, 0, 1, false, "spikes per step of every channel"}};
}

std::vector<TaskSetting> von_mises_settings() {
  std::vector<TaskSetting> settings = common_settings({.inputs = 100,
                                                       .fixation = 10,
                                                       .sample = 50,
                                                       .delay = 100,
                                                       .test = 50,
                                                       .rate = 0.1,
                                                       .background = 0.001});
  settings.push_back({"directions", 8, 2, 1000, true, "directions around the circle"});
  settings.push_back({"kappa", 3, 0, 1000, false, "sharpness of the tuning"});
  return settings;
}

const RegisterTask kDelayedMatch(
    {.name = "delayed_match",
     .doc = "are the two directions shown before and after a delay the same? two directions, few channels",
     .settings = common_settings(
         {.inputs = 16, .fixation = 0, .sample = 10, .delay = 20, .test = 10, .rate = 0.3, .background = 0}),
     .make =
         [](const TaskOptions& o) {
           return std::make_unique<DelayedMatch>("delayed_match", o, 2, half_of_channels);
         },
     .recipes = {{.model = "gru"},
                 {.model = "lif",
                  .rule = "pp_prop",
                  .rule_options = {"decay_or_rank=0.95"},
                  .updates = 1500,
                  .schedule = "cosine"},
                 {.model = "alif", .updates = 1500, .schedule = "cosine"}}});

const RegisterTask kDelayedMatchVonMises(
    {.name = "delayed_match_von_mises",
     .doc = "are the two directions shown before and after a delay the same? channels with tuning curves",
     .settings = von_mises_settings(),
     .make =
         [](const TaskOptions& o) {
           return std::make_unique<DelayedMatch>("delayed_match_von_mises", o, whole_setting(o, "directions"),
                                                 von_mises);
         },
     .recipes = {{.model = "gru"}}});

}  // namespace

}  // namespace etrace
