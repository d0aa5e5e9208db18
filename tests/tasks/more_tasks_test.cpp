// What the batches of each task hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "data/digits.h"
#include "etrace/ops/numpy.h"
#include "etrace/tasks.h"
#include "support/errors.h"
#include "tasks/data_task.h"

namespace etrace {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

std::vector<double> numbers(const Array& a) { return a.tensor().to_doubles(); }

// [steps, batch] of a tensor [steps, batch, n].
double at(const Array& a, std::int64_t t, std::int64_t b, std::int64_t k = 0) {
  const std::int64_t n = a.rank() == 3 ? a.dim(2) : 1;
  return numbers(a)[static_cast<std::size_t>((t * a.dim(1) + b) * n + k)];
}

TEST(Copying, TheLagGrowsWithTheCurriculum) {
  const auto task =
      make_task("copying", {.settings = {{"symbols", 2}, {"lag", 8}, {"curriculum", 4}, {"alphabet", 3}}});
  // Blank steps before the first symbol: all of the lag at first, none at the end and for checks.
  for (const auto& [index, before] : {std::pair<std::uint64_t, int>{0, 8},
                                      {1, 6},
                                      {3, 2},
                                      {4, 0},
                                      {1000, 0},
                                      {kFirstCheckBatch, 0},
                                      {kFirstFinalBatch, 0}}) {
    const Array shown = argmax(task->batch(index, 3).inputs);
    int blanks = 0;
    while (at(shown, blanks, 0) == 0.0) ++blanks;
    EXPECT_EQ(blanks, before) << index;
    EXPECT_EQ(at(shown, before, 1), at(task->batch(index, 3).targets, 10, 1));
  }
}

TEST(DelayedXor, TheAnswerIsTheExclusiveOr) {
  const auto task = make_task("delayed_xor", {.settings = {{"shown", 1}, {"delay", 2}, {"cue", 1}}});
  const TaskBatch b = task->batch(0, 64);
  double ones = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const bool first = at(b.inputs, 0, i, 1) == 1.0, second = at(b.inputs, 3, i, 3) == 1.0;
    EXPECT_NE(first, at(b.inputs, 0, i, 0) == 1.0);
    EXPECT_NE(second, at(b.inputs, 3, i, 2) == 1.0);
    EXPECT_EQ(at(b.inputs, 6, i, 4), 1.0) << "the cue";
    EXPECT_EQ(at(b.targets, 6, i), first != second ? 1.0 : 0.0);
    ones += at(b.targets, 6, i);
  }
  EXPECT_GT(ones, 16);
  EXPECT_LT(ones, 48);
}

TEST(Evidence, TheSideWithMoreCuesIsTheAnswer) {
  const auto task = make_task("evidence_accumulation", {.settings = {{"rate", 1000}, {"noise", 0}}});
  EXPECT_EQ(task->spec().steps, 2250);
  EXPECT_EQ(task->spec().num_inputs, 40);
  const TaskBatch b = task->batch(0, 8);
  std::set<double> seen;
  for (std::int64_t i = 0; i < 8; ++i) {
    int right = 0;
    for (int cue = 0; cue < 7; ++cue) {
      const std::int64_t step = cue * 150 + 75;
      const double left = at(b.inputs, step, i, 0), other = at(b.inputs, step, i, 10);
      EXPECT_EQ(left + other, 1.0) << "one side per cue";
      EXPECT_EQ(at(b.inputs, cue * 150 + 25, i, 0) + at(b.inputs, cue * 150 + 25, i, 10), 0.0) << "a pause";
      right += other == 1.0;
    }
    EXPECT_EQ(at(b.inputs, 2200, i, 20), 1.0) << "recall";
    EXPECT_EQ(at(b.inputs, 2000, i, 20), 0.0);
    EXPECT_EQ(at(b.targets, 2249, i), right > 3 ? 1.0 : 0.0);
    seen.insert(at(b.targets, 2249, i));
  }
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_EQ(sum(b.mask).item<double>(), 150.0);
  EXPECT_EQ(make_task("decision_making")->spec().num_inputs, 100);
  EXPECT_EQ(make_task("decision_making")->spec().steps, 2200);
}

TEST(Adding, TheTargetIsTheSumOfTheMarkedNumbers) {
  const auto task = make_task("adding", {.settings = {{"steps", 10}}});
  const TaskBatch b = task->batch(0, 20);
  for (std::int64_t i = 0; i < 20; ++i) {
    double total = 0.0, first = 0.0, second = 0.0;
    for (std::int64_t t = 0; t < 10; ++t) {
      total += at(b.inputs, t, i, 0) * at(b.inputs, t, i, 1);
      (t < 5 ? first : second) += at(b.inputs, t, i, 1);
    }
    EXPECT_EQ(first, 1.0);
    EXPECT_EQ(second, 1.0);
    EXPECT_NEAR(at(b.targets, 9, i), total, 1e-6);
  }
}

TEST(Parity, CountsTheOnesSoFar) {
  const TaskBatch b = make_task("parity")->batch(0, 10);
  for (std::int64_t i = 0; i < 10; ++i) {
    int ones = 0;
    for (std::int64_t t = 0; t < 20; ++t) {
      ones += at(b.inputs, t, i) > 0.0;
      EXPECT_EQ(at(b.targets, t, i), ones % 2);
    }
  }
}

TEST(PatternGeneration, IsTheSameInEveryTrial) {
  const auto task = make_task("pattern_generation", {.settings = {{"steps", 50}}});
  const TaskBatch a = task->batch(0, 2), b = task->batch(9, 2);
  EXPECT_EQ(a.inputs.tensor(), b.inputs.tensor());
  EXPECT_EQ(a.targets.tensor(), b.targets.tensor());
  EXPECT_EQ(max(abs(a.targets)).item<double>(), 1.0);
  EXPECT_EQ(at(a.targets, 7, 0), at(a.targets, 7, 1));
}

TEST(MackeyGlass, TheTargetIsTheSeriesAhead) {
  const auto task = make_task("mackey_glass", {.settings = {{"steps", 30}, {"ahead", 5}, {"warm", 0}}});
  const TaskBatch b = task->batch(0, 4);
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t t = 0; t + 5 < 30; ++t) EXPECT_EQ(at(b.targets, t, i), at(b.inputs, t + 5, i));
  // Standardised over the whole series.
  const Array x = task->batch(3, 200).inputs;
  EXPECT_NEAR(mean(x).item<double>(), 0.0, 0.1);
  EXPECT_NEAR(mean(square(x)).item<double>(), 1.0, 0.15);
}

TEST(TextTask, TheTargetIsTheNextCharacter) {
  const auto task = make_task("text");
  const TaskBatch b = task->batch(0, 4);
  const Array seen = argmax(b.inputs);
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t t = 0; t + 1 < task->spec().steps; ++t)
      EXPECT_EQ(at(b.targets, t, i), at(seen, t + 1, i));
}

TEST(TextTask, ReadsAFileAndRefusesShortOnes) {
  const std::string path = ::testing::TempDir() + "/etrace_text_task.txt";
  std::ofstream(path) << std::string(2000, 'a') << std::string(2000, 'b');
  const auto task = make_task("text", {.texts = {{"file", path}}});
  EXPECT_EQ(task->spec().num_outputs, 2);
  EXPECT_THAT(task->about(), HasSubstr("4000 characters, 2 different"));
  std::ofstream(path) << "abc";
  EXPECT_THAT(message_of<ValueError>([&] {
                make_task("text", {.texts = {{"file", path}}});
              }),
              HasSubstr("a text of 3 characters is too short for sequences of 40"));
  std::ofstream(path) << "aaa";
  EXPECT_THAT(message_of<ValueError>([&] {
                make_task("text", {.texts = {{"file", path}}});
              }),
              HasSubstr("one character only"));
  std::filesystem::remove(path);
  EXPECT_THAT(message_of<IoError>([&] { make_task("text", {.texts = {{"file", path}}}); }), HasSubstr(path));
  EXPECT_THAT(message_of<ValueError>([&] {
                make_task("text", {.texts = {{"fiel", path}}});
              }),
              HasSubstr("did you mean file?"));
}

// Data ------------------------------------------------------------------------------------------------------
TEST(Digits, AreAsTheyWereWritten) {
  const auto digits = data::read_digits(8);
  EXPECT_EQ(digits->samples.size(), 1797U);
  EXPECT_EQ(digits->samples[0].steps, 8);
  EXPECT_EQ(digits->samples[0].label, 0);
  EXPECT_EQ(digits->samples[1].label, 1);
  std::vector<float> first(64);
  digits->write(0, first.data());
  EXPECT_EQ(first[2], 5.0F / 16);
  EXPECT_THAT(message_of<ValueError>([] { data::read_digits(7); }), HasSubstr("7 pixels per step"));
}

// Series i has i + 1 steps, all of value i.
std::shared_ptr<data::DenseData> counting(int samples, int groups = 0) {
  auto out = std::make_shared<data::DenseData>();
  out->name = "counting";
  out->channels = 1;
  out->classes = {"even", "odd"};
  for (int i = 0; i < samples; ++i)
    out->add({.steps = i + 1, .label = i % 2, .group = groups > 0 ? std::to_string(i % groups) : ""},
             std::vector<float>(static_cast<std::size_t>(i) + 1, static_cast<float>(i)));
  return out;
}

// The samples of a batch, by the value of their last step.
std::vector<int> members(const TaskBatch& b) {
  std::vector<int> out;
  const std::int64_t last = b.inputs.dim(0) - 1;
  for (std::int64_t i = 0; i < b.samples.value_or(b.inputs.dim(1)); ++i)
    out.push_back(static_cast<int>(at(b.inputs, last, i)));
  return out;
}

TEST(DataTask, AlignsSeriesAtTheirEnd) {
  const DataTask task(counting(10), {.name = "data", .normalise = false});
  EXPECT_EQ(task.spec().steps, 10);
  const TaskBatch b = task.batch(0, 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    const double value = at(b.inputs, 9, i);
    for (std::int64_t t = 0; t < 10; ++t)
      EXPECT_EQ(at(b.inputs, t, i), t >= 9 - value ? value : 0.0) << "sample " << value << ", step " << t;
    EXPECT_EQ(at(b.targets, 9, i), std::fmod(value, 2.0));
  }
}

TEST(DataTask, AnEpochHasEverySampleOnceAndPartsHaveNothingInCommon) {
  const DataTask task(counting(100),
                      {.name = "data", .test = 0.2, .valid = 0.25, .normalise = false, .seed = 3});
  EXPECT_EQ(task.samples(Part::Final), 20);
  EXPECT_EQ(task.samples(Part::Check), 20);
  std::multiset<int> epoch, second;
  for (std::uint64_t k = 0; k < 6; ++k)
    for (const int i : members(task.batch(k, 10))) epoch.insert(i);
  for (std::uint64_t k = 6; k < 12; ++k)
    for (const int i : members(task.batch(k, 10))) second.insert(i);
  EXPECT_EQ(epoch.size(), 60U);
  EXPECT_EQ(std::set<int>(epoch.begin(), epoch.end()).size(), 60U) << "each once";
  EXPECT_EQ(epoch, second);
  EXPECT_NE(members(task.batch(0, 60)), members(task.batch(1, 60))) << "in another order";
  std::set<int> held;
  for (const Part part : {Part::Check, Part::Final})
    for (std::uint64_t k = 0; k < 3; ++k) {
      const TaskBatch b = task.batch(first_batch(part) + k, 8);
      EXPECT_EQ(b.samples.value_or(8), k < 2 ? 8 : 4) << "the last batch is short";
      for (const int i : members(b)) {
        EXPECT_FALSE(epoch.contains(i));
        EXPECT_TRUE(held.insert(i).second);
      }
    }
  EXPECT_EQ(held.size(), 40U);
}

TEST(DataTask, GroupsStayTogether) {
  const DataTask task(counting(60, 6),
                      {.name = "data", .test = 0.34, .valid = 0.25, .normalise = false, .by_group = true});
  std::set<int> train, final;
  for (const int i : members(task.batch(0, 60))) train.insert(i % 6);
  for (const int i : members(task.batch(kFirstFinalBatch, 60))) final.insert(i % 6);
  EXPECT_EQ(final.size(), 2U);
  for (const int g : final) EXPECT_FALSE(train.contains(g));
  EXPECT_THAT(message_of<ValueError>([] { DataTask(counting(9), {.name = "data", .by_group = true}); }),
              HasSubstr("names no groups"));
}

TEST(DataTask, NormalisesByTheTrainingPartAlone) {
  auto data = std::make_shared<data::DenseData>();
  data->name = "two parts";
  data->channels = 2;
  data->classes = {"a", "b"};
  for (int i = 0; i < 20; ++i)
    data->add({.steps = 1, .label = i % 2, .part = i < 16 ? data::Given::Train : data::Given::Test},
              {i < 16 ? static_cast<float>(i % 2 * 2) : 1000.0F, 7.0F});
  const DataTask task(data, {.name = "data", .valid = 0.25});
  const Array x = task.batch(0, 12).inputs, y = task.batch(kFirstFinalBatch, 4).inputs;
  for (const double v : numbers(slice_axis(x, 2, 0, 1))) EXPECT_NEAR(std::abs(v), 1.0, 0.5);
  for (const double v : numbers(slice_axis(x, 2, 1, 2))) EXPECT_EQ(v, 0.0) << "a constant channel";
  EXPECT_GT(at(y, 0, 0), 500.0) << "the test part has no say";
}

TEST(DataTask, WhatIsRefused) {
  const auto made = [](int samples, double test, double valid) {
    return message_of<ValueError>(
        [&] { DataTask(counting(samples), {.name = "data", .test = test, .valid = valid}); });
  };
  EXPECT_THAT(made(0, 0.2, 0.1), HasSubstr("holds no samples"));
  EXPECT_THAT(made(3, 0.01, 0.5), HasSubstr("leaves no sample for the final score"));
  EXPECT_THAT(made(10, 0.2, 0.01), HasSubstr("leaves no sample for checks"));
  auto one = counting(5);
  one->classes = {"all"};
  EXPECT_THAT(message_of<ValueError>([&] { DataTask(one, {.name = "data"}); }), HasSubstr("one class"));
}

}  // namespace
}  // namespace etrace
