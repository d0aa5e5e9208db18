// Tables of docs/choosing-a-rule.md, as markdown: the accuracy that rules reach on two tasks over five seeds,
// and what the length of a window changes. A few minutes on one core. The other tables there are made by
// `etrace rules --markdown`.
//
//   choose_rule [tasks] [windows]      default: both
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>

#include "etrace/etrace.h"

namespace et = etrace;

namespace {

constexpr int kSeeds = 5;

struct Statistics {
  double mean = 0.0, deviation = 0.0;
};
Statistics statistics(const std::vector<double>& values) {
  Statistics s;
  for (const double v : values) s.mean += v / static_cast<double>(values.size());
  for (const double v : values) s.deviation += (v - s.mean) * (v - s.mean);
  s.deviation = std::sqrt(s.deviation / static_cast<double>(std::max<std::size_t>(values.size(), 2) - 1));
  return s;
}

// Training --------------------------------------------------------------------------------------------------
struct Setting {
  const char* task;
  std::vector<std::pair<std::string, double>> settings;
  const char* model;
  std::int64_t hidden;
  double learning_rate;
};

constexpr std::int64_t kBatch = 16;

// A run that can be asked for its accuracy on batches that it never learns from.
class Run {
 public:
  Run(const Setting& s, const et::LearningRule& rule, std::int64_t window, std::uint64_t seed)
      : task_(et::make_task(s.task, {.settings = s.settings, .seed = seed})),
        ready_(
            et::make_model(s.model, {.sizes = {task_->spec().num_inputs, s.hidden, task_->spec().num_outputs},
                                     .batch = kBatch,
                                     .seed = seed})),
        learner_(
            et::compile(*ready_.module, rule, ready_.example,
                        {.batch_size = kBatch,
                         .seed = seed,
                         .vjp_method = window == 0 ? et::VjpMethod::SingleStep : et::VjpMethod::MultiStep,
                         .backend = "interpreter"})),
        optimizer_(*ready_.module, s.learning_rate, {}, {.clip_norm = 1.0}) {
    if (window > 0) options_.chunk_size = std::min(window, task_->spec().steps);
  }

  void learn() {
    const et::TaskBatch b = task_->batch(next_++, kBatch);
    reset();
    options_.mask = b.mask;
    learner_.etrace_train(b.inputs, b.targets, et::loss::cross_entropy, optimizer_, options_);
  }
  double accuracy() {
    constexpr std::uint64_t kFresh = std::uint64_t{1} << 62U, kBatches = 8;
    double sum = 0.0;
    for (std::uint64_t i = 0; i < kBatches; ++i) {
      const et::TaskBatch b = task_->batch(kFresh + i, kBatch);
      reset();
      sum += et::accuracy(learner_.etrace_evolve(et::Arrays{b.inputs})[0], b) / static_cast<double>(kBatches);
    }
    return sum;
  }
  std::string rule() const { return learner_.rule().describe_on(learner_.graph()); }

 private:
  void reset() {
    learner_.reset_state();
    learner_.reset_model_state();
  }
  std::unique_ptr<et::Task> task_;
  et::ReadyModel ready_;
  et::Learner learner_;
  et::optim::Adam optimizer_;
  et::TrainOptions options_;
  std::uint64_t next_ = 0;
};

const Setting kCopying{"copying", {{"symbols", 2}, {"alphabet", 4}, {"lag", 10}}, "gru", 32, 5e-3};
const Setting kMatch{"delayed_match", {{"delay", 10}}, "lif_expon", 32, 5e-3};

std::vector<std::shared_ptr<const et::LearningRule>> trained_rules() {
  return {et::make_rule("D_RTRL"),
          et::make_rule("OSTLRecurrent"),
          et::make_rule("pp_prop", {{"decay_or_rank", 0.95}}),
          et::make_rule("EProp"),
          et::make_rule("EProp", {{"kappa_filter_decay", 0.9}}),
          et::make_rule("EProp", {{"feedback", "random"}, {"random_feedback_key", 0}}),
          et::make_rule("UORO")};
}

void tasks_table(const Setting& s, std::int64_t updates) {
  std::cout << fmt::format("### {} with {}\n\n", s.task, s.model);
  std::cout << fmt::format(
      "{} hidden units, batches of {}, {} updates, one per sequence; accuracy on 128 fresh "
      "sequences, mean ± standard deviation of {} seeds.\n\n",
      s.hidden, kBatch, updates, kSeeds);
  std::cout << "| rule | single steps | windows of 8 |\n|---|---|---|\n";
  const auto reached = [&](const et::LearningRule& rule, std::int64_t window) {
    std::vector<double> found;
    for (int seed = 0; seed < kSeeds; ++seed) {
      Run run(s, rule, window, static_cast<std::uint64_t>(seed));
      for (std::int64_t i = 0; i < updates; ++i) run.learn();
      found.push_back(run.accuracy());
    }
    const Statistics st = statistics(found);
    return fmt::format("{:.2f} ± {:.2f}", st.mean, st.deviation);
  };
  for (const auto& rule : trained_rules())
    std::cout << fmt::format("| {} | {} | {} |\n", Run(s, *rule, 0, 0).rule(), reached(*rule, 0),
                             reached(*rule, 8))
              << std::flush;
  std::cout << fmt::format("| BPTT (one window) | | {} |\n\n", reached(et::D_RTRL(), 1000000)) << std::flush;
}

// Windows ---------------------------------------------------------------------------------------------------
void windows_table() {
  constexpr std::int64_t kMost = 1500, kEvery = 25;
  constexpr double kGoal = 0.95;
  const Setting s{"copying", {{"symbols", 2}, {"alphabet", 4}, {"lag", 16}}, "gru", 32, 5e-3};
  std::cout << fmt::format(
      "D_RTRL, GRU of {} units, copying with a lag of 16 (sequences of 20 steps), batches of {}: updates "
      "until {} "
      "of 128 fresh sequences' symbols are right (looked at every {}; {} if never), mean of {} seeds; the "
      "time of "
      "an update.\n\n| window | updates | ms per update |\n|---|---|---|\n",
      s.hidden, kBatch, kGoal, kEvery, kMost, kSeeds);
  for (const std::int64_t window : {0, 1, 2, 4, 8, 16, 1000000}) {
    std::vector<double> updates, times;
    for (int seed = 0; seed < kSeeds; ++seed) {
      Run run(s, et::D_RTRL(), window, static_cast<std::uint64_t>(seed));
      std::int64_t done = 0;
      double quickest = 1e9;
      while (done < kMost) {
        const auto begin = std::chrono::steady_clock::now();
        for (std::int64_t i = 0; i < kEvery; ++i) run.learn();
        done += kEvery;
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        quickest = std::min(quickest, seconds / static_cast<double>(kEvery));
        if (run.accuracy() >= kGoal) break;
      }
      updates.push_back(static_cast<double>(done));
      times.push_back(quickest * 1e3);
    }
    std::cout << fmt::format("| {} | {:.0f} ± {:.0f} | {:.2f} |\n",
                             window == 0         ? "single steps"
                             : window >= 1000000 ? "all 20: BPTT"
                                                 : std::to_string(window),
                             statistics(updates).mean, statistics(updates).deviation, statistics(times).mean)
              << std::flush;
  }
  std::cout << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  const auto asked = [&](const char* part) {
    return argc == 1 ||
           std::any_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, part) == 0; });
  };
  if (asked("tasks")) {
    tasks_table(kCopying, 300);
    tasks_table(kMatch, 300);
  }
  if (asked("windows")) windows_table();
}
