// Tasks: what a batch holds, that it depends on nothing but seed and index, and what is refused.
#include "etrace/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "etrace/ops/numpy.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<double> values(const Array& a) { return a.tensor().to_doubles(); }
std::vector<double> labels(const TaskBatch& b, std::int64_t step) {
  return values(slice_axis(b.targets, 0, step, step + 1));
}
Array steps(const Array& a, std::int64_t from, std::int64_t to) { return slice_axis(a, 0, from, to); }
double average(const Array& a) { return mean(a).item<double>(); }

// Small, so that the slow ones are quick.
TaskOptions small(std::string_view name, std::uint64_t seed = 0, Dtype dtype = Dtype::F32) {
  TaskOptions o{.seed = seed, .dtype = dtype};
  if (name == "delayed_match_von_mises")
    o.settings = {{"inputs", 20}, {"sample", 30}, {"delay", 20}, {"test", 30}};
  if (name == "data") {  // lives on a file
    const std::string path = ::testing::TempDir() + "/etrace_tasks_test.csv";
    std::ofstream out(path);
    for (int i = 0; i < 40; ++i) out << i << "," << i * i % 7 << "," << (i % 2 == 0 ? "a" : "b") << "\n";
    o.texts = {{"file", path}};
  }
  return o;
}

bool same(const TaskBatch& a, const TaskBatch& b) {
  return a.inputs.tensor() == b.inputs.tensor() && a.targets.tensor() == b.targets.tensor() &&
         a.mask.tensor() == b.mask.tensor();
}

TEST(Tasks, EveryOneHasTheShapesItStates) {
  for (const TaskEntry* row : tasks())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
      const TaskEntry& entry = *row;
      SCOPED_TRACE(entry.name);
      const auto task = make_task(entry.name, small(entry.name, 0, dtype));
      const Task::Spec spec = task->spec();
      const TaskBatch b = task->batch(3, 5);
      EXPECT_EQ(spec.name, entry.name);
      EXPECT_EQ(b.inputs.aval(), (Aval{dtype, {spec.steps, 5, spec.num_inputs}}));
      EXPECT_EQ(b.mask.aval(), (Aval{dtype, {spec.steps}}));
      const bool numbers = spec.loss == "mse";
      EXPECT_TRUE(numbers || spec.loss == "cross_entropy");
      EXPECT_EQ(b.targets.aval(), numbers ? (Aval{dtype, {spec.steps, 5, spec.num_outputs}})
                                          : (Aval{Dtype::I32, {spec.steps, 5}}));
      if (!numbers) {
        EXPECT_LT(max(b.targets).item<double>(), static_cast<double>(spec.num_outputs));
        EXPECT_GE(min(b.targets).item<double>(), 0.0);
      }
      for (const double m : values(b.mask)) EXPECT_TRUE(m == 0.0 || m == 1.0);
    }
}

TEST(Tasks, ABatchIsAFunctionOfSeedAndIndex) {
  for (const TaskEntry* row : tasks()) {
    const TaskEntry& entry = *row;
    SCOPED_TRACE(entry.name);
    const auto task = make_task(entry.name, small(entry.name, 4)),
               again = make_task(entry.name, small(entry.name, 4)),
               other = make_task(entry.name, small(entry.name, 5));
    const std::uint64_t far = (std::uint64_t{1} << 32U) + 7;  // both halves of the index count
    const TaskBatch batch = task->batch(7, 4);
    task->batch(1, 4);
    EXPECT_TRUE(same(batch, again->batch(7, 4)));
    EXPECT_EQ(same(batch, task->batch(8, 4)), task->spec().frozen);
    EXPECT_EQ(same(batch, task->batch(far, 4)), task->spec().frozen);
    EXPECT_FALSE(same(batch, other->batch(7, 4)));
  }
}

// The same on every machine: a batch as it was when this was written.
TEST(Tasks, PinnedBatch) {
  const auto copying = make_task("copying", {.settings = {{"symbols", 4}, {"lag", 1}}, .seed = 1});
  EXPECT_EQ(values(argmax(copying->batch(2, 1).inputs)), (std::vector<double>{1, 7, 2, 1, 0, 9, 9, 9, 9}));
  const auto match = make_task("delayed_match", {.settings = {{"rate", 0.08}}, .seed = 1});
  EXPECT_EQ(labels(match->batch(0, 8), 39), (std::vector<double>{1, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(sum(match->batch(0, 8).inputs).item<double>(), 95.0);
}

TEST(Copying, SymbolsBlanksAndCues) {
  const auto task = make_task("copying", {.settings = {{"symbols", 3}, {"alphabet", 4}, {"lag", 2}}});
  EXPECT_EQ(task->spec().steps, 8);
  EXPECT_EQ(task->spec().num_inputs, 6);
  EXPECT_EQ(task->spec().num_outputs, 6);
  const TaskBatch b = task->batch(0, 50);
  EXPECT_EQ(sum(b.inputs).item<double>(), 8 * 50) << "one-hot";
  const Array shown = argmax(b.inputs);
  EXPECT_EQ(values(steps(shown, 0, 3)), values(steps(b.targets, 5, 8)));
  EXPECT_EQ(min(steps(shown, 0, 3)).item<int>(), 1);
  EXPECT_EQ(max(steps(shown, 0, 3)).item<int>(), 4);
  for (const double blank : values(steps(shown, 3, 5))) EXPECT_EQ(blank, 0);
  for (const double cue : values(steps(shown, 5, 8))) EXPECT_EQ(cue, 5);
  EXPECT_EQ(values(b.mask), (std::vector<double>{0, 0, 0, 0, 0, 1, 1, 1}));
}

TEST(Copying, DefaultsAndNoLag) {
  const auto usual = make_task("copying");
  EXPECT_EQ(usual->spec().num_inputs, 10);
  EXPECT_EQ(usual->spec().steps, 40);
  const auto none = make_task("copying", {.settings = {{"lag", 0}}});
  EXPECT_EQ(none->batch(0, 1).inputs.shape(), (Shape{20, 1, 10}));
}

// Whether the channels that spiked in the sample and in the test are of the same half.
TEST(DelayedMatch, LabelsFollowTheSpikes) {
  const auto task = make_task("delayed_match", {.settings = {{"rate", 0.5}}});
  const TaskBatch b = task->batch(0, 200);
  auto halves = [&](std::int64_t from) {  // spikes per sample in the lower half of the channels
    return values(sum(slice_axis(steps(b.inputs, from, from + 10), 2, 0, 8), {0, 2}));
  };
  const std::vector<double> sample = halves(0), test = halves(30), label = labels(b, 39);
  EXPECT_EQ(sum(steps(b.inputs, 10, 30)).item<double>(), 0.0) << "silent delay";
  for (std::size_t i = 0; i < label.size(); ++i)
    EXPECT_EQ((sample[i] > 0) == (test[i] > 0), label[i] == 1.0) << "sample " << i;
  EXPECT_EQ(sum(b.mask).item<double>(), 10.0);
  EXPECT_EQ(sum(steps(b.targets, 0, 30)).item<double>(), 0.0);
}

TEST(DelayedMatch, RatesAndBalance) {
  const auto task = make_task("delayed_match");
  const TaskBatch b = task->batch(1, 1000);
  EXPECT_NEAR(average(steps(b.inputs, 0, 10)), 0.15, 0.004) << "half of the channels at 0.3";
  EXPECT_NEAR(average(steps(b.targets, 39, 40)), 0.5, 0.05);
}

TEST(DelayedMatchVonMises, TuningOfTheChannels) {
  const auto task = make_task("delayed_match_von_mises", {.settings = {{"inputs", 16},
                                                                       {"fixation", 40},
                                                                       {"sample", 60},
                                                                       {"delay", 40},
                                                                       {"test", 60},
                                                                       {"background", 0.01},
                                                                       {"rate", 0.5}}});
  const TaskBatch b = task->batch(0, 400);
  EXPECT_EQ(b.inputs.shape(), (Shape{200, 400, 16}));
  EXPECT_NEAR(average(steps(b.inputs, 0, 40)), 0.01, 0.001);
  EXPECT_NEAR(average(steps(b.inputs, 100, 140)), 0.01, 0.001);
  // Averaged over directions, each channel sees the mean of the tuning curve over the circle.
  double tuning = 0.0;
  for (int d = 0; d < 8; ++d) tuning += std::exp(3.0 * (std::cos(2 * 3.14159265358979 * d / 8) - 1.0)) / 8;
  EXPECT_NEAR(average(steps(b.inputs, 40, 100)), 0.01 + 0.5 * tuning, 0.004);
  // A match shows the same direction twice: the most active channel stays, or its neighbour takes over.
  const std::vector<double> sample = values(argmax(sum(steps(b.inputs, 40, 100), {0}))),
                            test = values(argmax(sum(steps(b.inputs, 140, 200), {0}))),
                            label = labels(b, 199);
  int agree = 0;
  for (std::size_t i = 0; i < label.size(); ++i) {
    const double apart = std::abs(sample[i] - test[i]), distance = std::min(apart, 16.0 - apart);
    agree += (distance < 1.5) == (label[i] == 1.0) ? 1 : 0;
  }
  EXPECT_GT(agree, 340);
  EXPECT_NEAR(average(steps(b.targets, 199, 200)), 0.5, 0.08);
}

TEST(DelayedMatchVonMises, StatedSizes) {
  const Task::Spec spec = make_task("delayed_match_von_mises")->spec();
  EXPECT_EQ(spec.steps, 210);
  EXPECT_EQ(spec.num_inputs, 100);
  EXPECT_EQ(spec.num_outputs, 2);
}

TEST(Integrator, TargetIsTheRunningSum) {
  const auto task = make_task("integrator", {.dtype = Dtype::F64});
  const TaskBatch b = task->batch(0, 500);
  const std::vector<double> x = values(b.inputs), y = values(b.targets);
  std::vector<double> total(500);
  for (std::size_t i = 0; i < x.size(); ++i) {
    total[i % 500] += x[i];
    EXPECT_NEAR(y[i], total[i % 500], 1e-13);
  }
  EXPECT_NEAR(average(b.inputs), -0.025, 0.01);
  EXPECT_NEAR(variance(b.inputs).item<double>(), 0.05 * 0.05 * 2, 5e-4) << "noise and drift";
  EXPECT_EQ(average(b.mask), 1.0);
}

// Accuracy --------------------------------------------------------------------------------------------------

Array constant_answer(const Task& task, std::int64_t batch, std::int64_t answer) {
  return one_hot(full({task.spec().steps, batch}, answer, Dtype::I32), task.spec().num_outputs);
}

TEST(Accuracy, ChanceAndPerfection) {
  const auto copying = make_task("copying"), match = make_task("delayed_match");
  const TaskBatch c = copying->batch(0, 300), m = match->batch(0, 1000);
  EXPECT_NEAR(accuracy(constant_answer(*copying, 300, 3), c), 1.0 / 8, 0.02);
  EXPECT_EQ(accuracy(constant_answer(*copying, 300, 0), c), 0.0) << "blanks are not scored";
  EXPECT_NEAR(accuracy(constant_answer(*match, 1000, 1), m), 0.5, 0.05);
  EXPECT_EQ(accuracy(one_hot(c.targets, 10), c), 1.0);
  EXPECT_EQ(accuracy(one_hot(m.targets, 2, Dtype::F64), m), 1.0);
}

TEST(Accuracy, WrongOperandsAreNamed) {
  const TaskBatch b = make_task("copying")->batch(0, 2);
  EXPECT_THAT(message_of<ValueError>([&] {
                accuracy(zeros({40, 3, 10}), b);
              }),
              AllOf(HasSubstr("f32[40,3,10]"), HasSubstr("i32[40,2]")));
  EXPECT_THROW(accuracy(zeros({40, 2}), b), ValueError);
  EXPECT_THROW(accuracy(zeros({40, 2, 0}), b), ValueError);
  const TaskBatch numbers = make_task("integrator")->batch(0, 2);
  EXPECT_THAT(message_of<ValueError>([&] { accuracy(numbers.targets, numbers); }), HasSubstr("labels"));
  // A label beyond the classes, at a step that is scored and at one that is not.
  const TaskBatch two{zeros({2, 1, 1}), array({0.0, 9.0}, {2, 1}, Dtype::I32), array({1.0, 1.0})};
  EXPECT_THAT(message_of<ValueError>([&] {
                accuracy(zeros({2, 1, 3}), two);
              }),
              AllOf(HasSubstr("label 9 at position 1"), HasSubstr("3 classes")));
  EXPECT_EQ(accuracy(zeros({2, 1, 3}), {two.inputs, two.targets, array({1.0, 0.0})}), 1.0);
  const TaskBatch unscored{b.inputs, b.targets, zeros_like(b.mask)};
  EXPECT_THAT(message_of<ValueError>([&] { accuracy(b.inputs, unscored); }), HasSubstr("no step"));
}

// The table -------------------------------------------------------------------------------------------------

TEST(TaskTable, NamesAreSortedAndFound) {
  const auto all = tasks();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](auto* a, auto* b) { return a->name < b->name; }));
  for (const TaskEntry* entry : all) {
    EXPECT_EQ(find_task(entry->name), entry);
    EXPECT_FALSE(entry->doc.empty());
    EXPECT_FALSE(entry->recipes.empty()) << entry->name;
    EXPECT_GT(entry->solved, 0.0);
    for (const TaskSetting& s : entry->settings) {
      EXPECT_TRUE(s.low <= s.value && s.value <= s.high) << entry->name << "." << s.name;
      EXPECT_FALSE(s.doc.empty());
    }
  }
  EXPECT_EQ(find_task("copy"), nullptr);
}

TEST(TaskTable, ARecipeIsChosenByTheModel) {
  const TaskEntry& match = *find_task("delayed_match");
  EXPECT_EQ(recipe_of(match).model, match.recipes.front().model);
  EXPECT_EQ(recipe_of(match, "lif").rule, "pp_prop");
  const TaskRecipe other = recipe_of(match, "mgu");
  EXPECT_EQ(other.model, "mgu");
  EXPECT_EQ(other.rule, "D_RTRL");
  EXPECT_EQ(other.updates, match.recipes.front().updates);
}

TEST(TaskTable, ANameIsTakenOnce) {
  EXPECT_THAT(message_of<ValueError>([] { const RegisterTask again(*find_task("copying")); }),
              HasSubstr("there is a task copying already"));
}

TEST(TaskTable, WhatIsRefused) {
  EXPECT_THAT(message_of<ValueError>([] { make_task("copy"); }),
              AllOf(HasSubstr("'copy'"), HasSubstr("copying, data, decision_making")));
  auto copying = [](const char* setting, double value) {
    return message_of<ValueError>([&] { make_task("copying", {.settings = {{setting, value}}}); });
  };
  EXPECT_THAT(copying("lga", 3), AllOf(HasSubstr("'lga'"), HasSubstr("symbols, alphabet, lag, curriculum")));
  EXPECT_THAT(copying("lag", -1),
              AllOf(HasSubstr("lag of the task copying is -1"), HasSubstr("from 0 to 1000000")));
  EXPECT_THAT(copying("symbols", 2.5), AllOf(HasSubstr("2.5"), HasSubstr("whole number")));
  EXPECT_THAT(copying("alphabet", std::nan("")), HasSubstr("nan"));
  EXPECT_THAT(message_of<ValueError>([] { make_task("copying")->batch(0, 0); }),
              AllOf(HasSubstr("batch of 0"), HasSubstr("copying")));
  EXPECT_THAT(message_of<TypeError>([] { make_task("copying", {.dtype = Dtype::I32}); }),
              HasSubstr("float32 or float64"));
}

}  // namespace
}  // namespace etrace
