// What the page of a run shows of its model, and the curves from its log.
#include "train/page_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "train/logged_curves.h"
#include "train/training.h"

namespace etrace::train {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Training tiny(const std::string& model, const std::string& rule = "d_rtrl") {
  return Training({.task = "copying",
                   .task_settings = {{"lag", 1}, {"symbols", 1}, {"alphabet", 2}},
                   .model = model,
                   .rule = rule,
                   .hidden = 5,
                   .batch = 4,
                   .updates = 1,
                   .backend = "interpreter"});
}

TEST(PageContent, HiddenStatesOfSamplesAreThoseOfTheModel) {
  Training t = tiny("gru");
  const auto seen = t.seen_activity(3);
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_FALSE(seen[0].spikes);
  EXPECT_EQ(seen[0].units, 5);
  EXPECT_EQ(seen[0].steps, t.task().spec().steps);
  ASSERT_THAT(seen[0].samples, SizeIs(3));
  // The same by hand, of the second sample.
  Module& model = t.module();
  reset_all_states(model);
  const TaskBatch batch = t.task().batch(first_batch(Part::Check), 4);
  const auto& h = *states(model, StateKind::Hidden).at(0).state;
  for (std::int64_t s = 0; s < seen[0].steps; ++s) {
    const Array x = slice_axis(batch.inputs, 0, s, s + 1);
    model(Arrays{reshape(x, {4, batch.inputs.dim(2)})});
    const std::vector<double> now = h.value().tensor().to_doubles();
    for (std::int64_t u = 0; u < 5; ++u)
      EXPECT_NEAR(seen[0].samples[1][static_cast<std::size_t>(u * seen[0].steps + s)],
                  now[static_cast<std::size_t>(5 + u)], 1e-6);
  }
}

TEST(PageContent, LookingChangesNothing) {
  Training looked = tiny("lif", "pp_prop"), plain = tiny("lif", "pp_prop");
  for (int i = 0; i < 3; ++i) {
    looked.seen_activity(2);
    EXPECT_EQ(looked.learn().loss, plain.learn().loss);
  }
}

TEST(PageContent, SpikesAreZeroOrOne) {
  Training t = tiny("lif");
  const auto seen = t.seen_activity(2);
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(seen[0].spikes);
  for (const auto& sample : seen[0].samples) EXPECT_THAT(sample, Each(::testing::AnyOf(0.0F, 1.0F)));
}

TEST(PageContent, LargeActivityBecomesASmallPictureThatKeepsItsPeaks) {
  SeenActivity seen{.name = "h", .units = 300, .steps = 5000};
  seen.samples.emplace_back(300 * 5000, 0.0F);
  seen.samples[0][4321] = -2.0F;  // of unit 0, which is shown
  const RunPage::Picture p = picture_of(seen);
  EXPECT_EQ(p.rows, 128U);
  EXPECT_EQ(p.columns, 400U);
  EXPECT_EQ(p.samples.at(0).at(4321 * 400 / 5000), -2.0F);
  EXPECT_THAT(p.text,
              AllOf(HasSubstr("128 of 300 units"), HasSubstr("5000 steps"), HasSubstr("from -2 to 0")));
}

TEST(PageContent, WeightsAreSpreadOverFortyParts) {
  Training t = tiny("gru");
  const auto weights = weight_spreads(t.module());
  ASSERT_FALSE(weights.empty());
  for (const WeightSpread& w : weights) {
    double all = 0.0;
    for (const double share : w.spread.shares) all += share;
    EXPECT_NEAR(all, 1.0, 1e-9) << w.name;
    EXPECT_LE(w.spread.low, w.spread.mean);
    EXPECT_GE(w.spread.high, w.spread.mean);
  }
}

TEST(PageContent, TracesAddUp) {
  for (const char* rule : {"d_rtrl", "pp_prop", "eprop"}) {
    Training t = tiny("gru", rule);
    const RunPage::Table table = trace_table(t.learner());
    ASSERT_GE(table.rows.size(), 2U) << rule;
    EXPECT_EQ(table.rows.back().front(), "together");
    EXPECT_THAT(graph_of(t.learner()), AllOf(HasSubstr("class=\"drawing"), Not(HasSubstr("href="))));
  }
}

TEST(PageContent, WhatDiffersFromTheRecipe) {
  const ConfigItems recipe{{"model", "gru"}, {"lr", "0.003"}, {"set", "lag=20"}, {"memory", "20"}};
  const ConfigItems here{{"model", "lif"}, {"lr", "0.003"}, {"set", "lag=4"}, {"rule-option", "rank=2"}};
  EXPECT_THAT(changes_table(recipe, here).rows,
              ElementsAre(ElementsAre("--model", "lif", "gru"), ElementsAre("--rule-option rank", "2", "–"),
                          ElementsAre("--set lag", "4", "20"), ElementsAre("--memory", "–", "20")));
  EXPECT_THAT(changes_table(recipe, recipe).rows, IsEmpty());
}

TEST(Curves, ManyPointsBecomeTheMeansOfNeighbours) {
  RunPage::Curve c{.name = "loss"};
  for (int i = 1; i <= 5000; ++i) c.add({.x = 1.0 * i, .y = i % 2 == 0 ? 1.0 : 3.0, .seconds = 0.5 * i});
  EXPECT_LE(c.points.size(), 2000U);
  std::int64_t count = 0;
  double sum = 0.0;
  for (const RunPage::Point& p : c.points) {
    count += p.count;
    sum += p.y * static_cast<double>(p.count);
  }
  EXPECT_EQ(count, 5000);
  EXPECT_THAT(sum / 5000.0, DoubleNear(2.0, 1e-9));
  EXPECT_EQ(c.points.back().x, 5000.0);
  EXPECT_EQ(c.points.back().seconds, 2500.0);
}

TEST(Curves, ALogOfSeveralProcessesCountsItsSecondsOn) {
  const std::string path = ::testing::TempDir() + "/etrace_curves_" + std::to_string(getpid()) + ".jsonl";
  std::ofstream(path) << R"({"event":"start","batches":0}
{"event":"batch","batches":1,"updates":2,"loss":1.0,"accuracy":0.5,"seconds":1.0}
{"event":"check","batches":1,"updates":2,"loss":0.5,"accuracy":0.75}
{"event":"start","batches":1}
{"event":"batch","batches":2,"updates":4,"loss":null,"accuracy":0.5,"seconds":0.25}
no line of a log
)";
  const LoggedCurves curves(path);
  std::filesystem::remove(path);
  ASSERT_THAT(curves.loss.curves[LoggedCurves::Training].points, SizeIs(1));
  ASSERT_THAT(curves.accuracy.curves[LoggedCurves::Training].points, SizeIs(2));
  EXPECT_EQ(curves.accuracy.curves[LoggedCurves::Training].points[1].seconds, 1.25);
  EXPECT_EQ(curves.loss.curves[LoggedCurves::HeldOut].points[0].seconds, 1.0);
  EXPECT_EQ(curves.seconds(), 1.25);
}

TEST(Curves, NamesStayText) {
  const RunPage run{
      .title = "a",
      .plots = {{.title = "Loss", .curves = {{.name = "</script><b>", .points = {{.x = 1, .y = 1}}}}}}};
  const std::string html = run.to_html();
  EXPECT_THAT(html, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(html, AllOf(HasSubstr("&lt;/script&gt;&lt;b&gt;"), HasSubstr(R"(\u003c/script>\u003cb>)")));
}

}  // namespace
}  // namespace etrace::train
