// Delayed match to sample: spikes show a direction in the sample period and one in the test period, with a
// delay between; label 1 if they are the same, else 0, scored in the test period. Both happen with
// probability ½; a direction that does not match is any of the others with equal probability.
// A channel spikes in a step with probability
//   background + rate·tuning(channel, direction) in sample and test,   background elsewhere.
// Two forms of tuning:
//   delayed_match             two directions, opposite ones; each has half of the channels to itself
//   delayed_match_von_mises   preferred directions all around the circle; e^(κ·cos Δ)/e^κ at the angle Δ
// There one step is 1 ms, so that 100 Hz are a probability of 0.1.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "tasks/entries.h"

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

// A channel spikes if 32 random bits lie below this: whole numbers, so that no rounding decides.
std::uint64_t threshold(double probability) {
  return static_cast<std::uint64_t>(std::llround(std::clamp(probability, 0.0, 1.0) * 0x1p32));
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
  DelayedMatch(std::string_view name, const TaskOptions& o, std::int64_t directions, Tuning tuning)
      : Task({.name = name,
              .num_inputs = whole_setting(o, "inputs"),
              .num_outputs = 2,
              .steps = periods(o).steps(),
              .seed = o.seed,
              .dtype = o.dtype}),
        periods_(periods(o)),
        directions_(directions),
        background_(static_cast<std::size_t>(spec().num_inputs), threshold(setting(o, "background"))) {
    for (std::int64_t d = 0; d < directions; ++d) tuned_.push_back(thresholds_of(o, d, tuning));
  }

 private:
  using Thresholds = std::vector<std::uint64_t>;  // one per channel

  Thresholds thresholds_of(const TaskOptions& o, std::int64_t direction, Tuning tuning) const {
    Thresholds row;
    for (std::int64_t c = 0; c < spec().num_inputs; ++c) {
      const double channel = static_cast<double>(c) / static_cast<double>(spec().num_inputs);
      const double turns = static_cast<double>(direction) / static_cast<double>(directions_);
      row.push_back(threshold(setting(o, "background") + setting(o, "rate") * tuning(o, channel, turns)));
    }
    return row;
  }

  const Thresholds& thresholds_at(std::int64_t step, std::int32_t sample, std::int32_t test) const {
    const std::int64_t since_sample = step - periods_.fixation;
    if (since_sample >= 0 && since_sample < periods_.sample) return tuned_[static_cast<std::size_t>(sample)];
    const bool in_test = step >= spec().steps - periods_.test;
    return in_test ? tuned_[static_cast<std::size_t>(test)] : background_;
  }

  // f32[steps, batch, channels]
  Tensor spikes(const Array& key, std::span<const std::int32_t> sample,
                std::span<const std::int32_t> test) const {
    const auto batch = static_cast<std::int64_t>(sample.size());
    const Shape shape{spec().steps, batch, spec().num_inputs};
    const Tensor bits = random::bits(key, shape).tensor();
    Tensor result = Tensor::uninitialized({Dtype::F32, shape});
    const std::uint32_t* in = bits.data<std::uint32_t>().data();
    auto* out = reinterpret_cast<float*>(result.writable());
    for (std::int64_t t = 0; t < spec().steps; ++t)
      for (std::size_t b = 0; b < sample.size(); ++b)
        for (const std::uint64_t limit : thresholds_at(t, sample[b], test[b]))
          *out++ = *in++ < limit ? 1.0F : 0.0F;
    return result;
  }

  TaskBatch draw(const Array& key, std::int64_t batch) const override {
    auto part = [&](int i) { return random::fold_in(key, i); };
    const Array sample = random::randint(part(0), {batch}, 0, directions_);
    const Array match = random::randint(part(1), {batch}, 0, 2);
    const Array turn = random::randint(part(2), {batch}, 1, directions_);  // to a direction that differs
    const Array count = full({}, directions_, Dtype::I32);
    const Array test = where(equal_to(match, 1), sample, (sample + turn) % count);
    const Tensor from = sample.tensor(), to = test.tensor();
    const Tensor shown = spikes(part(3), from.data<std::int32_t>(), to.data<std::int32_t>());
    const Array scored = last_steps(spec().steps, periods_.test, Dtype::I32);
    return {convert(shown, spec().dtype), expand_dims(scored, {1}) * match, convert(scored, spec().dtype)};
  }

  Periods periods_;
  std::int64_t directions_;
  Thresholds background_;
  std::vector<Thresholds> tuned_;  // per direction
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

}  // namespace

TaskEntry delayed_match_entry() {
  return {"delayed_match",
          "are the two directions shown before and after a delay the same? two directions, few channels",
          common_settings({.inputs = 16,
                           .fixation = 0,
                           .sample = 10,
                           .delay = 20,
                           .test = 10,
                           .rate = 0.08,
                           .background = 0}),
          [](const TaskOptions& o) -> std::unique_ptr<Task> {
            return std::make_unique<DelayedMatch>("delayed_match", o, 2, half_of_channels);
          }};
}

TaskEntry delayed_match_von_mises_entry() {
  std::vector<TaskSetting> settings = common_settings({.inputs = 100,
                                                       .fixation = 10,
                                                       .sample = 500,
                                                       .delay = 1000,
                                                       .test = 500,
                                                       .rate = 0.1,
                                                       .background = 0.001});
  settings.push_back({"directions", 8, 2, 1000, true, "directions around the circle"});
  settings.push_back({"kappa", 3, 0, 1000, false, "sharpness of the tuning"});
  return {"delayed_match_von_mises",
          "are the two directions shown before and after a delay the same? channels with tuning curves",
          std::move(settings), [](const TaskOptions& o) -> std::unique_ptr<Task> {
            return std::make_unique<DelayedMatch>("delayed_match_von_mises", o,
                                                  whole_setting(o, "directions"), von_mises);
          }};
}

}  // namespace etrace
