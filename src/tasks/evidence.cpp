// Evidence accumulation and decision making: spikes on the left and on the right side of a maze, then a
// delay, then recall: on which side were there more cues? One step is 1 ms.
//   channels: a quarter each for cues on the left, cues on the right, recall, and noise
//   steps:    `cues` times (a pause, a cue), a delay, recall; recall is scored
// The cues of a sample lie on one side with probability `odds`, on the other with 1 − odds; the sides have
// equal chances, and the label is the side that had more. An odd number of cues has no tie. The settings of
// evidence_accumulation are those of e-prop's authors, those of decision_making BrainTrace's.
#include <numeric>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"
#include "tasks/spikes.h"

namespace etrace {

namespace {

struct Trial {
  std::int64_t cues, pause, cue, delay, recall;
  std::int64_t steps() const { return cues * (pause + cue) + delay + recall; }
};
Trial trial_of(const TaskOptions& o) {
  return {whole_setting(o, "cues"), whole_setting(o, "pause"), whole_setting(o, "cue"),
          whole_setting(o, "delay"), whole_setting(o, "recall")};
}

class Evidence : public Task {
 public:
  Evidence(std::string name, const TaskOptions& o)
      : Task({.name = std::move(name),
              .num_inputs = 4 * whole_setting(o, "group"),
              .num_outputs = 2,
              .steps = trial_of(o).steps(),
              .seed = o.seed,
              .dtype = o.dtype,
              .classes = {"left", "right"}}),
        trial_(trial_of(o)),
        odds_(setting(o, "odds")) {
    for (int active = 0; active <= kNobody; ++active) limits_.push_back(limits_of(o, active));
  }

 private:
  enum Group : int { kLeft, kRight, kRecall, kNobody };

  static SpikeLimits limits_of(const TaskOptions& o, int active) {
    const auto group = static_cast<std::size_t>(whole_setting(o, "group"));
    const SpikeLimit on = spike_limit(setting(o, "rate") / 1000.0),
                     noise = spike_limit(setting(o, "noise") / 1000.0);
    SpikeLimits row;
    for (int g : {kLeft, kRight, kRecall}) row.insert(row.end(), group, g == active ? on : 0);
    row.insert(row.end(), group, noise);
    return row;
  }

  // Which group is active; `right`: the side of each cue of the sample.
  Group active_at(std::int64_t step, const std::int32_t* right) const {
    const std::int64_t period = trial_.pause + trial_.cue, number = step / period;
    if (number < trial_.cues) {
      if (step % period < trial_.pause) return kNobody;
      return right[number] != 0 ? kRight : kLeft;
    }
    return step >= spec().steps - trial_.recall ? kRecall : kNobody;
  }

  TaskBatch draw(const Draw& d) const override {
    auto part = [&](int i) { return random::fold_in(d.key, i); };
    const Array favoured = random::randint(part(0), {d.size, 1}, 0, 2);
    const Array other = convert(random::bernoulli(part(1), 1.0 - odds_, {d.size, trial_.cues}), Dtype::I32);
    const Array right =
        convert(not_equal_to(broadcast_in_dim(favoured, {d.size, trial_.cues}, {0, 1}), other), Dtype::I32);
    const Array label = convert(2 * sum(right, {1}) > full({}, trial_.cues, Dtype::I32), Dtype::I32);
    const Tensor sides = right.tensor();
    const std::int32_t* side = sides.data<std::int32_t>().data();
    const Tensor shown = spike_trains(part(2), {spec().steps, d.size, spec().num_inputs},
                                      [&](std::int64_t t, std::int64_t b) -> const SpikeLimits& {
                                        return limits_[active_at(t, side + b * trial_.cues)];
                                      });
    const Array scored = last_steps(spec().steps, trial_.recall, Dtype::I32);
    return {convert(shown, spec().dtype), expand_dims(scored, {1}) * label, convert(scored, spec().dtype)};
  }

  Trial trial_;
  double odds_;
  std::vector<SpikeLimits> limits_;  // by the active group
};

std::vector<TaskSetting> evidence_settings(double group, double delay) {
  constexpr double kLongest = 1000000;
  return {{"cues", 7, 1, 1001, true, "cues per trial"},
          {"pause", 50, 0, kLongest, true, "steps before each cue"},
          {"cue", 100, 1, kLongest, true, "steps of a cue"},
          {"delay", delay, 0, kLongest, true, "steps between the last cue and recall"},
          {"recall", 150, 1, kLongest, true, "steps of recall, which are scored"},
          {"group", group, 1, 100000, true, "channels of each of the four groups"},
          {"rate", 40, 0, 1000, false, "spikes per second of a channel while its group is active"},
          {"noise", 10, 0, 1000, false, "spikes per second of a channel of noise"},
          {"odds", 0.7, 0, 1, false, "how often a cue lies on the favoured side"}};
}

const TaskRecipe kEvidenceRecipe{.model = "gru",
                                 .rule = "pp_prop",
                                 .rule_options = {"decay_or_rank=0.99"},
                                 .updates = 300,
                                 .schedule = "cosine"};

// Adaptive neurons keep the count of cues in their thresholds; the other rules of the model have the same
// numbers.
const TaskRecipe kEvidenceSpikes{.model = "alif",
                                 .rule = "EProp",
                                 .batch = 32,
                                 .window = 150,
                                 .learning_rate = 5e-3,
                                 .updates = 1000,
                                 .schedule = "cosine"};

const RegisterTask kEvidenceAccumulation(
    {.name = "evidence_accumulation",
     .doc = "on which side were there more cues? asked more than a second after the last one",
     .settings = evidence_settings(10, 1050),
     .make = [](const TaskOptions& o) { return std::make_unique<Evidence>("evidence_accumulation", o); },
     .recipes = {kEvidenceRecipe, kEvidenceSpikes},
     .solved = 0.90});

const RegisterTask kDecisionMaking(
    {.name = "decision_making",
     .doc = "on which side were there more cues? more channels, and a delay of a second",
     .settings = evidence_settings(25, 1000),
     .make = [](const TaskOptions& o) { return std::make_unique<Evidence>("decision_making", o); },
     .recipes = {kEvidenceRecipe, kEvidenceSpikes},
     .solved = 0.90});

}  // namespace

}  // namespace etrace
