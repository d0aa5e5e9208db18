// Coordinates of rules: canonical form, what is legal and in which order it is checked, text and back, and
// every legal point as a rule that runs.
#include "etrace/config.h"

#include <set>

#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;
using Scope = RecurrenceScope;
using Recursion = TemporalRecursion;

constexpr TraceFactorization kSides = TraceFactorization::IoFactorized,
                             kProjection = TraceFactorization::RandomProjection;

// Every combination of words, with coefficients where a value needs one.
std::vector<ETraceAxes> all_axes() {
  std::vector<ETraceAxes> out;
  const std::vector<Recursion> recursions{Recursion::Jacobian, Recursion::ScalarLeak, Recursion::None};
  for (const auto f : {TraceFactorization::PerParam, kSides, kProjection})
    for (const Recursion x : recursions)
      for (const Recursion y : recursions)
        for (const Scope scope : {Scope::Diagonal, Scope::Coupled, Scope::SparseN})
          for (const auto signal : {LearningSignal::Symmetric, LearningSignal::RandomFeedback,
                                    LearningSignal::Modulatory, LearningSignal::Bootstrapped})
            for (const auto filter : {TraceFilter::None, TraceFilter::Kappa}) {
              if (f != kSides && x != y) continue;
              ETraceAxes a{.trace_factorization = f,
                           .recurrence_scope = scope,
                           .learning_signal = signal,
                           .trace_filter = filter};
              if (f == kSides) {
                a.temporal_recursion = PerSide<Recursion>(x, y);
                a.decay = PerSide<double>(x == Recursion::None ? 0.0 : 0.8, y == Recursion::None ? 0.0 : 0.7);
              } else {
                a.temporal_recursion = x;
                if (x == Recursion::ScalarLeak) a.decay = PerSide<double>(0.8);
              }
              if (scope == Scope::SparseN) a.sparse_n = 2;
              if (filter == TraceFilter::Kappa) a.kappa = 0.6;
              out.push_back(a);
            }
  return out;
}

std::vector<ETraceConfig> legal_configs() {
  std::vector<ETraceConfig> out;
  for (const ETraceAxes& a : all_axes()) try {
      out.emplace_back(a);
    } catch (const ValueError&) {
    }
  return out;
}

TEST(Config, L115_SeventySixPointsAreLegal) {
  std::set<std::string> texts;
  for (const ETraceConfig& c : legal_configs()) texts.insert(c.describe());
  EXPECT_EQ(legal_configs().size(), 76U);
  EXPECT_EQ(texts.size(), 76U) << "no two of them are the same";
}

TEST(Config, CanonicalFormIsIdempotentAndTextRebuildsIt) {
  for (const ETraceConfig& c : legal_configs()) {
    SCOPED_TRACE(c.describe());
    EXPECT_EQ(ETraceConfig(c.axes()), c);
    EXPECT_EQ(ETraceConfig::parse(c.describe()), c);
    EXPECT_EQ(ETraceConfig(c.options()), c);
    EXPECT_EQ(c.replace({}), c);
  }
  EXPECT_EQ(ETraceConfig().describe(), "ETraceConfig()");
}

TEST(Config, WhatMeansTheSameIsEqual) {
  EXPECT_EQ(ETraceConfig({.recurrence_scope = Scope::SparseN, .sparse_n = 1}),
            ETraceConfig({.recurrence_scope = Scope::Coupled}));
  EXPECT_EQ(ETraceConfig({.trace_filter = TraceFilter::Kappa, .kappa = 0.0}), ETraceConfig());
  EXPECT_EQ(ETraceConfig({.temporal_recursion = Recursion::ScalarLeak, .decay = PerSide<double>(0.0)}),
            ETraceConfig({.temporal_recursion = Recursion::None}));
  const ETraceConfig shorthand({.trace_factorization = kSides, .decay = PerSide<double>(0.9)});
  EXPECT_EQ(shorthand, ETraceConfig({.trace_factorization = kSides,
                                     .temporal_recursion = {Recursion::ScalarLeak, Recursion::Jacobian},
                                     .decay = PerSide<double>(0.9, 0.9)}));
  EXPECT_EQ(ETraceConfig({.trace_factorization = kSides, .decay = PerSide<double>(0.9, 0.0)})
                .axes()
                .temporal_recursion,
            PerSide<Recursion>(Recursion::ScalarLeak, Recursion::None));
}

// Each broken rule by name, and in their order where two are broken.
TEST(Config, L115_IllegalPointsAreRefused) {
  const auto refused = [](const char* what, const ETraceAxes& a) {
    expect_error<ValueError>(what, [&] { ETraceConfig c(a); });
  };
  refused("update_schedule window is a known name", {.trace_factorization = kSides,
                                                     .trace_filter = TraceFilter::Kappa,
                                                     .update_schedule = UpdateSchedule::Window});
  refused("trace_filter kappa needs trace_factorization per_param",
          {.trace_factorization = kProjection, .trace_filter = TraceFilter::Kappa, .kappa = 0.5});
  refused("recurrence_scope coupled is about the Jacobian",
          {.temporal_recursion = Recursion::None, .recurrence_scope = Scope::Coupled});
  refused("the input side has no Jacobian", {.trace_factorization = kSides,
                                             .temporal_recursion = {Recursion::Jacobian, Recursion::Jacobian},
                                             .decay = PerSide<double>(0.9)});
  refused("has no meaning with temporal_recursion jacobian", {.decay = PerSide<double>(0.9)});
  refused("scalar_leak needs a decay", {.temporal_recursion = Recursion::ScalarLeak});
  refused("io_factorized needs a decay for both sides", {.trace_factorization = kSides});
  refused("trace_filter kappa needs kappa", {.trace_filter = TraceFilter::Kappa});
  refused("kappa is given without trace_filter kappa", {.kappa = 0.5});
  refused("sparse_n is given without recurrence_scope sparse_n", {.sparse_n = 2});
  refused("recurrence_scope sparse_n needs sparse_n", {.recurrence_scope = Scope::SparseN});
  refused("give recurrence_scope coupled", {.trace_factorization = kProjection});
  refused("recurrence_scope sparse_n needs trace_factorization per_param",
          {.trace_factorization = kSides,
           .recurrence_scope = Scope::SparseN,
           .decay = PerSide<double>(0.9),
           .sparse_n = 2});
  refused("sparse_n is 0", {.recurrence_scope = Scope::SparseN, .sparse_n = 0});
  refused("temporal_recursion is a pair", {.temporal_recursion = {Recursion::None, Recursion::None}});
  refused("decay is 1; it must lie in [0, 1)",
          {.temporal_recursion = Recursion::ScalarLeak, .decay = PerSide<double>(1.0)});
  refused("temporal_recursion none has no decay",
          {.temporal_recursion = Recursion::None, .decay = PerSide<double>(0.5)});
  refused("kappa is -0.5", {.trace_filter = TraceFilter::Kappa, .kappa = -0.5});
}

TEST(Config, WordsAndTypesByName) {
  expect_error<ValueError>("recurrence_scope is \"wide\"; it must be one of: diagonal, coupled, sparse_n",
                           [] {
                             ETraceConfig c(RuleOptions{{"recurrence_scope", "wide"}});
                           });
  expect_error<ValueError>("there is no axis scope", [] {
    ETraceConfig c(RuleOptions{{"scope", "coupled"}});
  });
  expect_error<TypeError>("decay is", [] { ETraceConfig c(RuleOptions{{"decay", true}}); });
  expect_error<TypeError>("decay is", [] { ETraceConfig c(RuleOptions{{"decay", "much"}}); });
  expect_error<TypeError>("sparse_n is", [] { ETraceConfig c(RuleOptions{{"sparse_n", true}}); });
  expect_error<TypeError>("learning_signal is", [] { ETraceConfig c(RuleOptions{{"learning_signal", 3}}); });
  expect_error<ValueError>("is not of the form", [] { ETraceConfig::parse("D_RTRL"); });
}

TEST(Config, NamedRulesArePointsAndRowsSayWhatRulesDo) {
  EXPECT_EQ(*D_RTRL().config(), ETraceConfig());
  EXPECT_EQ(*EProp().config(), ETraceConfig()) << "without a filter";
  EXPECT_EQ(*SnAp({.n = 1}).config(), *OSTLRecurrent().config());
  EXPECT_EQ(SnAp({.n = 3}).config()->axes().sparse_n, 3);
  EXPECT_EQ(*OSTLFeedforward().config(), *pp_prop({.decay_or_rank = 1e-6}).config());
  EXPECT_EQ(UORO().config()->axes().trace_factorization, kProjection);
  EXPECT_EQ(ThreeFactor().config()->axes().learning_signal, LearningSignal::Modulatory);
  EXPECT_EQ(DNI().config()->axes().learning_signal, LearningSignal::Bootstrapped);
  for (const RuleRow* row : rule_rows()) {
    SCOPED_TRACE(row->name);
    const std::shared_ptr<const LearningRule> rule = make_rule(row->name);
    EXPECT_EQ(rule->name(), row->name);
    EXPECT_EQ(rule->theory(true).statement, row->expectation);
    EXPECT_FALSE(row->doc.empty() || row->gradient.empty());
    for (const RuleOption& o : row->options) EXPECT_FALSE(o.help.empty()) << o.name;
  }
}

// What a setting is missing for.
TEST(Config, GatesAtConstruction) {
  expect_error<ValueError>("random feedback needs a random_feedback_key",
                           [] { EProp rule({.feedback = Feedback::Random}); });
  expect_error<ValueError>("projection_eps is 0", [] { UORO rule({.projection_eps = 0.0}); });
  expect_error<ValueError>("projection_eps is 1e-60", [] { UORO rule({.projection_eps = 1e-60}); });
  const Model m = tanh_rnn();
  expect_error<NotSupportedError>("Use vjp_method single-step",
                                  [&] { make_learner(m, InWindows(ThreeFactor())); });
  expect_error<NotSupportedError>("Use vjp_method multi-step", [&] { make_learner(m, DNI()); });
}

// All 76 run, and give finite gradients that are not zero; those that differ in an axis that matters differ.
TEST(Config, L115_EveryPointRuns) {
  const Model m = two_state();
  const Sequence data = draw_sequence(m, 6);
  const ParamValues expected = bptt(m, data).grads;
  std::set<std::string> different;
  for (const ETraceConfig& c : legal_configs()) {
    SCOPED_TRACE(c.describe());
    const ConfiguredRule rule(c, {.random_feedback_key = 3, .modulator = Array(0.5)});
    const bool windows = c.axes().learning_signal == LearningSignal::Bootstrapped;
    Learner learner = windows ? make_learner(m, InWindows(rule)) : make_learner(m, rule);
    const ParamValues found = online(learner, data, windows ? 2 : 0);
    for (const Array& g : found.values) {
      EXPECT_TRUE(std::isfinite(norm(g)));
      EXPECT_GT(norm(g), 1e-8);
    }
    different.insert(std::to_string(norm(found.values[0])));
    if (c == ETraceConfig()) expect_gradients(found, expected, 1e-10);
  }
  EXPECT_GT(different.size(), 25U) << "most axes change the gradient of this model";
}

}  // namespace
}  // namespace etrace
