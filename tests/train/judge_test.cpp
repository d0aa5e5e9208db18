// What a score is worth, and what is seen of spiking layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "train/training.h"

namespace etrace::train {
namespace {

using ::testing::HasSubstr;

TEST(Judge, TheBestConstantAnswerIsCounted) {
  // A quarter of the scored steps of copying shows each of four symbols.
  const auto copying = make_task("copying", {.settings = {{"alphabet", 4}}});
  const Score guess = best_constant(*copying, 0, 8, 64);
  EXPECT_NEAR(*guess.accuracy, 0.25, 0.02);
  EXPECT_NEAR(guess.loss, std::log(4.0), 0.01);
  // The sum of two numbers of variance 1/12 each.
  const auto adding = make_task("adding");
  const Score mean = best_constant(*adding, 0, 8, 256);
  EXPECT_FALSE(mean.accuracy);
  EXPECT_NEAR(mean.loss, 1.0 / 6.0, 0.01);
}

TEST(Judge, GuessingBetterAndSolvedAreTold) {
  const TaskEntry& match = *find_task("delayed_match");
  const Score half{0.7, 0.5};
  EXPECT_EQ(judge(match, {0.7, 0.52}, half, 512).outcome, Outcome::Guessing);
  EXPECT_EQ(judge(match, {0.6, 0.62}, half, 512).outcome, Outcome::Better);
  EXPECT_EQ(judge(match, {0.1, 0.97}, half, 512).outcome, Outcome::Solved);
  EXPECT_THAT(judge(match, {0.7, 0.5}, half, 512).text(), HasSubstr("NO BETTER THAN GUESSING"));
  const TaskEntry& adding = *find_task("adding");
  const Score variance{0.1667, std::nullopt};
  EXPECT_EQ(judge(adding, {0.1660, std::nullopt}, variance, 512).outcome, Outcome::Guessing);
  EXPECT_EQ(judge(adding, {std::nan(""), std::nullopt}, variance, 512).outcome, Outcome::Guessing);
  EXPECT_EQ(judge(adding, {0.05, std::nullopt}, variance, 512).outcome, Outcome::Better);
  EXPECT_EQ(judge(adding, {0.001, std::nullopt}, variance, 512).outcome, Outcome::Solved);
}

TEST(Activity, RatesAreCountedPerLayer) {
  const auto task = make_task("delayed_match");
  for (const char* name : {"lif", "alif", "conv_snn"}) {
    SCOPED_TRACE(name);
    const ReadyModel model = make_model(name, {.sizes = {16, 20, 2}, .batch = 4});
    ActivityWatch watch(model.module, model.example, "interpreter");
    ASSERT_TRUE(watch.has_neurons());
    const auto layers = watch(task->batch(0, 4));
    for (const LayerActivity& l : layers) {
      EXPECT_GT(l.units, 0);
      EXPECT_LE(l.silent, l.units);
      double mean = 0.0;
      for (const double r : l.rates) mean += r / static_cast<double>(l.units);
      EXPECT_NEAR(mean, l.rate, 1e-12);
    }
    EXPECT_TRUE(std::any_of(layers.begin(), layers.end(), [](const auto& l) { return l.units == 20; }));
    // Nothing comes in, nothing goes out.
    TaskBatch dark = task->batch(0, 4);
    dark.inputs = zeros_like(dark.inputs);
    if (std::string(name) != "conv_snn") {
      EXPECT_EQ(watch(dark).back().silent, 20);
    }
  }
  const ReadyModel gru = make_model("gru", {.sizes = {16, 8, 2}, .batch = 4});
  EXPECT_FALSE(ActivityWatch(gru.module, gru.example, "interpreter").has_neurons());
}

TEST(Activity, SilentAndSaturatedLayersGetAdvice) {
  EXPECT_EQ(activity_advice({{.layer = "a", .units = 10, .silent = 5}}), "");
  EXPECT_THAT(activity_advice({{.layer = "a", .units = 10, .silent = 6}}),
              HasSubstr("6 of 10 units of a never fire"));
  EXPECT_THAT(activity_advice({{.layer = "b", .units = 10, .saturated = 9}}),
              HasSubstr("9 of 10 units of b fire in nearly"));
}

TEST(Settings, AreCompletedByTheRecipe) {
  const TrainSettings s = resolved({.task = "delayed_match", .model = "lif", .hidden = 8});
  EXPECT_EQ(s.rule, "pp_prop");
  EXPECT_EQ(s.rule_options, std::vector<std::string>{"decay_or_rank=0.95"});
  EXPECT_EQ(s.hidden, 8);
  EXPECT_GT(s.updates, 0);
  EXPECT_EQ(resolved({.task = "mnist_5k"}).memory, 20.0) << "as the data set wants it";
  EXPECT_EQ(resolved({.task = "japanese_vowels"}).memory, 0.0) << "as the recipe of data has it";
  EXPECT_FALSE(resolved({.task = "mnist_5k", .model = "lif"}).memory) << "no gates";
  EXPECT_EQ(resolved({.task = "mnist_5k", .memory = 3.0}).memory, 3.0);
  EXPECT_FALSE(resolved({.task = "copying", .optimizer = "sgd"}).learning_rate)
      << "that of another optimiser is its own";
  EXPECT_TRUE(resolved({.task = "delayed_match", .model = "lif", .rule = "D_RTRL"}).rule_options.empty());
}

}  // namespace
}  // namespace etrace::train
