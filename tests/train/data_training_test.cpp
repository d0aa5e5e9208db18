// Training on data: series of different lengths, parts, normalisation, order, and batches that are made
// ahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "data/reader.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "support/errors.h"
#include "tasks/data_task.h"
#include "train/padding.h"
#include "train/rule_text.h"
#include "train/training.h"

namespace etrace::train {
namespace {

namespace fs = std::filesystem;
using etrace::testing::message_of;
using ::testing::HasSubstr;

class DataTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    std::mt19937 random(3);
    std::ofstream out(path("s.csv"));
    out << "id,who,a,b,kind\n";
    for (int id = 0; id < 40; ++id) {
      const int length = 3 + static_cast<int>(random() % 12);
      for (int t = 0; t < length; ++t)
        out << id << ",speaker" << id % 5 << "," << (id % 2 == 0 ? 1 : -1) * (0.2 + (random() % 100) / 100.0)
            << "," << 1000.0 + random() % 500 << "," << (id % 2 == 0 ? "up" : "down") << "\n";
    }
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  TrainSettings settings(const std::string& rule = "D_RTRL") const {
    TrainSettings s{.task = "data", .model = "gru", .rule = rule, .hidden = 6, .batch = 4};
    s.backend = "interpreter";
    s.task_texts = {{"file", path("s.csv")}, {"read", "series=id,group=who,label=kind"}};
    return s;
  }
  std::string checkpoint_after(const TrainSettings& s, int batches, int cut = -1) const {
    auto t = std::make_unique<Training>(s);
    for (int i = 0; i < batches; ++i) {
      if (i == cut) {
        t->save(path("cut"));
        t = std::make_unique<Training>(s);
        t->resume(path("cut"));
      }
      t->learn();
    }
    t->save(path("end"));
    std::ifstream in(path("end"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string folder_ = ::testing::TempDir() + "/etrace_data_training_" + std::to_string(getpid());
};

TEST_F(DataTraining, AheadOrNotAndResumedTheBitsAreTheSame) {
  TrainSettings s = settings();
  const std::string ahead = checkpoint_after(s, 12), resumed = checkpoint_after(s, 12, 7);
  s.prefetch = false;
  EXPECT_EQ(checkpoint_after(s, 12), ahead);
  EXPECT_EQ(resumed, ahead);
  s.seed = 1;
  EXPECT_NE(checkpoint_after(s, 12), ahead);
}

// What a shorter series gives does not depend on who shares its batch.
TEST_F(DataTraining, ScoresDoNotDependOnThePadding) {
  TrainSettings s = settings();
  Training four(s);
  s.batch = 1;
  Training one(s);
  EXPECT_TRUE(four.task().has_padding());
  const Score a = four.score(Part::Final, 1), b = one.score(Part::Final, 1);
  EXPECT_NEAR(a.loss, b.loss, 1e-5 * b.loss);
  EXPECT_EQ(a.accuracy, b.accuracy);
  s.task_texts.emplace_back("padding", "zeros");
  EXPECT_FALSE(Training(s).task().has_padding());
}

TEST_F(DataTraining, RulesThatCannotFreezeTakeZerosAndSaySo) {
  EXPECT_TRUE(freezes_samples(*rule_from("D_RTRL", {})));
  EXPECT_TRUE(freezes_samples(*rule_from("EProp", {})));
  EXPECT_FALSE(freezes_samples(*rule_from("pp_prop", {"decay_or_rank=0.9"})));
  TrainSettings s = settings("pp_prop");
  s.rule_options = {"decay_or_rank=0.9"};
  Training t(s);
  t.learn();
  EXPECT_THAT(t.summary(), HasSubstr("zeros come in before the first step"));
  EXPECT_THAT(Training(settings()).summary(), HasSubstr("shorter series stand still"));
  s.task_texts.emplace_back("padding", "frozen");
  Training forced(s);
  EXPECT_THAT(message_of<NotSupportedError>([&] { forced.learn(); }), HasSubstr("padding that differs"));
  s.task_texts.back().second = "thawed";
  EXPECT_THAT(message_of<ValueError>([&] { Training(s).learn(); }), HasSubstr("expected frozen or zeros"));
}

// One window over the whole series is reverse mode, also where samples stand still.
TEST_F(DataTraining, TheGradientOfOneWindowIsThatOfBptt) {
  TrainSettings s = settings();
  s.window = 14;
  s.dtype = Dtype::F64;
  Training windows(s);
  for (int i = 0; i < 3; ++i) windows.learn();  // biases that act
  const Training::Fidelity f = windows.fidelity();
  EXPECT_NEAR(f.cosine, 1.0, 1e-9);
  EXPECT_NEAR(f.norm_ratio, 1.0, 1e-9);
  s.rule = "BPTT";
  s.window = 0;
  Training whole(s);
  for (int i = 0; i < 3; ++i) whole.learn();
  const Score a = windows.score(Part::Final, 1), b = whole.score(Part::Final, 1);
  EXPECT_NEAR(a.loss, b.loss, 1e-7 * b.loss);
}

TEST_F(DataTraining, PartsByGroupAndNormalisationFromTheTrainingPart) {
  const std::shared_ptr<const data::Dataset> d =
      data::read_data(path("s.csv"), "", {{"series", "id"}, {"group", "who"}, {"label", "kind"}});
  EXPECT_EQ(d->channels, 2);
  for (const std::uint64_t seed : {0, 1, 2}) {
    const DataTask task(d, {.name = "data", .test = 0.2, .valid = 0.25, .by_group = true, .seed = seed});
    // Which sample a line of a batch is: by its numbers before they are normalised, from the constants.
    const auto mean = task.facts();
    std::set<std::string> groups[3];
    std::vector<double> sum(2), count(1);
    for (const Part part : {Part::Train, Part::Check, Part::Final}) {
      const std::int64_t n = part == Part::Train ? 24 : *task.samples(part);
      const TaskBatch b = task.batch(first_batch(part), n);
      const std::vector<double> x = b.inputs.tensor().to_doubles(), active = b.active.tensor().to_doubles();
      for (std::int64_t k = 0; k < n; ++k) {
        std::vector<float> series;
        for (std::int64_t t = 0; t < b.inputs.dim(0); ++t) {
          const auto at = static_cast<std::size_t>(t * n + k);
          if (active[at] == 0.0) {
            EXPECT_EQ(x[2 * at], 0.0);
            continue;
          }
          for (std::size_t c = 0; c < 2; ++c) series.push_back(static_cast<float>(x[2 * at + c]));
          if (part != Part::Train) continue;
          for (std::size_t c = 0; c < 2; ++c) sum[c] += x[2 * at + c];
          ++count[0];
        }
        bool found = false;
        std::vector<float> own(static_cast<std::size_t>(task.spec().steps * 2));
        for (std::size_t i = 0; i < d->samples.size(); ++i) {
          task.write(i, own.data());
          const std::size_t real = static_cast<std::size_t>(d->samples[i].steps) * 2;
          if (series.size() != real ||
              !std::equal(series.begin(), series.end(), own.end() - static_cast<std::ptrdiff_t>(real)))
            continue;
          groups[static_cast<std::size_t>(part)].insert(d->samples[i].group);
          found = true;
        }
        EXPECT_TRUE(found);
      }
    }
    EXPECT_EQ(groups[0].size() + groups[1].size() + groups[2].size(), 5U) << "no speaker is in two parts";
    for (const double each : sum)
      EXPECT_NEAR(each / count[0], 0.0, 1e-3) << "an epoch of training has mean 0";
  }
}

TEST_F(DataTraining, WhatATaskThrowsAheadIsThrownWhereItIsAskedFor) {
  struct Ends : Task {
    Ends() : Task({.name = "ends", .num_inputs = 1, .num_outputs = 2, .steps = 1}) {}
    TaskBatch draw(const Draw& d) const override {
      if (d.index == 2) throw IoError("data", "the disk is gone");
      return {zeros({1, d.size, 1}), zeros({1, d.size}, Dtype::I32), ones({1})};
    }
  } task;
  BatchAhead ahead(task, 3);
  ahead(0);
  ahead(1);
  EXPECT_THAT(message_of<IoError>([&] { ahead(2); }), HasSubstr("the disk is gone"));
}

}  // namespace
}  // namespace etrace::train
