// Rules side by side: what is judged, how it is summed up, which rows are best, and that time is kept.
#include "etrace/compare_rules.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "etrace/models.h"
#include "etrace/transform.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StepFunction mse() {
  return [](StepCall& model, ArraySpan s) { return LossAndAux{loss::mse(model(s[0]), s[1])}; };
}

ModelDraw draw(const char* name, std::uint64_t seed, std::int64_t steps = 10) {
  const ReadyModel ready = make_model(name, {.dtype = Dtype::F64, .seed = seed});
  ModelDraw d{trace_step(*ready.module, ready.example, name).model, {}};
  const Sequence data = draw_sequence(d.model, steps, seed + 3);
  d.sequences = {3.0 * data.args[0], data.targets};
  return d;
}

std::vector<std::shared_ptr<const LearningRule>> rules(std::initializer_list<const char*> names) {
  std::vector<std::shared_ptr<const LearningRule>> out;
  for (const char* name : names) out.push_back(make_rule(name));
  return out;
}
CompareOptions quick() {
  CompareOptions o;
  o.windows = {1, 4};
  o.lags = 4;
  o.repeats = 1;
  return o;
}

// A leaky readout has the largest gradient and is exact under D_RTRL: with it the direction of all would look
// right.
TEST(CompareRules, ReadoutsAreLeftOutByStructure) {
  const ModelDraw d = draw("lif", 0, 40);
  const RuleComparison c =
      compare_rules(d.model, rules({"D_RTRL"}), d.sequences, mse(), {.windows = {}, .lags = 0, .repeats = 1});
  EXPECT_THAT(c.judged, ElementsAre("syn/weight.bias", "syn/weight.weight"));
  ASSERT_EQ(c.left_out.size(), 1U);
  EXPECT_EQ(c.left_out[0].parameter, "out/W");
  EXPECT_EQ(c.left_out[0].reason, "feeds the leaky readout out/r alone");
  EXPECT_LT(c.rows.at(0).cosine, 0.99);
  EXPECT_LT(c.rows.at(0).norm_ratio, 0.2);
  // Where there is nothing else, a readout of the input is judged.
  const Model m = leaky_linear();
  const RuleComparison alone = compare_rules(m, rules({"D_RTRL"}), draw_sequence(m, 6).all(), mse(), quick());
  EXPECT_THAT(alone.judged, ElementsAre("w"));
  const ModelDraw gru = draw("gru", 0);
  const RuleComparison cells = compare_rules(gru.model, rules({"D_RTRL"}), gru.sequences, mse(), quick());
  EXPECT_THAT(cells.left_out.at(0).reason, HasSubstr("own step only"));
}

TEST(CompareRules, EveryParameterCountsAlikeOverTheDraws) {
  const std::vector<ModelDraw> draws{draw("gru", 0), draw("gru", 1), draw("gru", 2)};
  const auto which = rules({"D_RTRL", "pp_prop"});
  const RuleComparison all = compare_rules(draws, which, mse(), quick());
  EXPECT_EQ(all.draws, 3);
  std::vector<RuleComparison> alone;
  for (const ModelDraw& d : draws)
    alone.push_back(compare_rules(d.model, which, d.sequences, mse(), quick()));
  ASSERT_EQ(all.rows.size(), 6U);
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    const RuleComparison::Row& row = all.rows[i];
    EXPECT_EQ(row.draws, 3);
    double cosine = 0.0, lowest = 2.0;
    for (const RuleComparison& one : alone) {
      double mean = 0.0;
      for (const RuleComparison::Parameter& p : one.rows[i].parameters)
        mean += p.cosine / static_cast<double>(one.rows[i].parameters.size());
      EXPECT_NEAR(one.rows[i].cosine, mean, 1e-12);
      cosine += mean / 3.0;
    }
    EXPECT_NEAR(row.cosine, cosine, 1e-12);
    EXPECT_GT(row.deviation, 0.0);
    for (std::size_t k = 0; k < row.parameters.size(); ++k) {
      EXPECT_EQ(row.parameters[k].name, all.judged[k]);
      lowest = std::min(lowest, row.parameters[k].cosine);
    }
    EXPECT_EQ(row.lowest_cosine, lowest);
  }
}

TEST(CompareRules, BestIsWhatNothingWithLessMemoryIsCloserThan) {
  const ModelDraw d = draw("lif", 0, 24);
  const RuleComparison c = compare_rules(
      d.model, rules({"D_RTRL", "pp_prop", "EProp", "OSTLFeedforward", "UORO"}), d.sequences, mse(), quick());
  double nearest = 1e9;
  std::int64_t before = 0;
  for (const std::size_t i : c.frontier()) {
    EXPECT_GE(c.rows[i].bytes(), before);
    EXPECT_LT(c.distance(c.rows[i]).total(), nearest - 0.0049);
    before = c.rows[i].bytes();
    nearest = c.distance(c.rows[i]).total();
  }
  for (const RuleComparison::Row& r : c.rows) {
    const RuleComparison::Distance distance = c.distance(r);
    EXPECT_NEAR(distance.direction, 1.0 - r.cosine, 1e-12);
    EXPECT_NEAR(distance.size, std::abs(std::log(r.norm_ratio)), 1e-12);
    bool beaten = false;
    for (const RuleComparison::Row& other : c.rows)
      beaten = beaten || (other.bytes() <= r.bytes() && &other != &r &&
                          c.distance(other).total() <= distance.total() + 0.005);
    EXPECT_TRUE(r.best || beaten) << r.rule << " " << r.window;
  }
}

TEST(CompareRules, RowsComeAsTheyAreMeasuredAndCheapOnesFirst) {
  const ModelDraw d = draw("gru", 0);
  std::vector<std::size_t> seen;
  std::vector<std::string> names;
  CompareOptions o = quick();
  o.on_row = [&](const RuleComparison& c) {
    seen.push_back(c.rows.size());
    EXPECT_FALSE(c.judged.empty());
    if (!c.rows.empty() && (names.empty() || names.back() != c.rows.back().rule))
      names.push_back(c.rows.back().rule);
  };
  const RuleComparison c =
      compare_rules(d.model, rules({"SnAp", "D_RTRL", "pp_prop"}), d.sequences, mse(), o);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
  EXPECT_EQ(seen.size(), c.rows.size() + 1);
  EXPECT_THAT(names, ElementsAre("pp_prop (decay 0.95)", "D_RTRL", "SnAp (n 2)"));
}

TEST(CompareRules, WhatThereIsNoTimeForIsListed) {
  const ModelDraw d = draw("gru", 0);
  CompareOptions o = quick();
  o.seconds = 1e-9;
  const RuleComparison c = compare_rules(d.model, rules({"D_RTRL", "SnAp"}), d.sequences, mse(), o);
  EXPECT_TRUE(c.rows.empty());
  ASSERT_EQ(c.not_measured.size(), 6U);
  for (const RuleComparison::Refused& r : c.not_measured) EXPECT_EQ(r.reason, "the time was up");
  EXPECT_EQ(c.not_measured[1].where, "windows of 1 step");
  EXPECT_THAT(c.to_string(), HasSubstr("Not measured"));
  EXPECT_EQ(nlohmann::json::parse(c.to_json())["not_measured"].size(), 6U);
  EXPECT_THAT(c.to_html(), HasSubstr("Not measured"));
}

TEST(CompareRules, WhatSaysTheSameIsNotMeasuredTwice) {
  const ModelDraw d = draw("lif", 0);
  std::vector<std::shared_ptr<const LearningRule>> both{make_rule("D_RTRL"),
                                                        make_rule("D_RTRL", {{"composite", true}})};
  const RuleComparison c = compare_rules(d.model, both, d.sequences, mse(), quick());
  EXPECT_EQ(c.rows.size(), 3U);
  ASSERT_EQ(c.not_measured.size(), 1U);
  EXPECT_THAT(c.not_measured[0].reason, HasSubstr("composite changes nothing"));
}

TEST(CompareRules, Errors) {
  const ModelDraw a = draw("gru", 0), longer = draw("gru", 1, 12), other = draw("mini_gru", 0);
  expect_error<ValueError>("no draw", [&] { compare_rules({}, rules({"D_RTRL"}), mse()); });
  expect_error<ValueError>("sequences of different types", [&] {
    const ModelDraw draws[] = {a, longer};
    compare_rules(draws, rules({"D_RTRL"}), mse());
  });
  expect_error<ValueError>("all draws must have one program", [&] {
    const ModelDraw draws[] = {a, other};
    compare_rules(draws, rules({"D_RTRL"}), mse(), quick());
  });
  expect_error<ValueError>("different equations, though their inputs are alike", [&] {
    ModelDraw turned = a;
    turned.model.program = make_jaxpr(
        [&](ArraySpan x) {
          Arrays y = eval_jaxpr(a.model.program, x);
          y.back() = y.back() * 2.0;
          return y;
        },
        a.model.program.in_avals());
    const ModelDraw draws[] = {a, turned};
    compare_rules(draws, rules({"D_RTRL"}), mse(), quick());
  });
  expect_error<ValueError>("a window of 0 steps", [&] {
    compare_rules(a.model, rules({"D_RTRL"}), a.sequences, mse(), {.windows = {0}});
  });
}

}  // namespace
}  // namespace etrace
