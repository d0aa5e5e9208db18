// Learning rules on random models, judged against references that know nothing of traces; and the judge, the
// generator and the shrinker themselves. More models: ./dev fuzz gradients.
#include <map>
#include <set>

#include "etrace/expected.h"
#include "learn/scenario.h"
#include "support/shrink_model.h"

namespace etrace {
namespace {

using namespace testing;

constexpr std::uint64_t kFirstSeed = 1;
constexpr std::uint64_t kModels = 300, kPerTest = 50;

std::string report(const MinimalCase& c) { return to_string(c.finding) + "\n" + to_string(c.model); }

class RandomGradients : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomGradients, AreWhatIsExpected) {
  Judgement all;
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kPerTest; ++seed) {
    const ModelDescription m = draw_model(seed);
    const JudgeOptions o = options_for(m, seed, 2);
    const Judgement j = judge(to_model(m), o);
    all.exact += j.exact;
    all.approximate += j.approximate;
    all.first_steps += j.first_steps;
    for (const Finding& f : j.findings) {
      ADD_FAILURE() << "seed " << seed << ": " << to_string(f) << "\n"
                    << to_string(m) << "smaller:\n"
                    << report(minimal_case(m, f, o));
      return;
    }
  }
  std::cout << "seeds " << GetParam() << " to " << GetParam() + kPerTest - 1 << ": " << all.exact
            << " leaves exact, " << all.approximate << " approximate, " << all.first_steps
            << " at a first step\n";
  EXPECT_GT(all.exact, kPerTest);
  EXPECT_GT(all.approximate, kPerTest);
  EXPECT_GT(all.first_steps, 4 * kPerTest);
}

std::vector<std::uint64_t> first_seeds() {
  std::vector<std::uint64_t> out;
  for (std::uint64_t s = kFirstSeed; s < kFirstSeed + kModels; s += kPerTest) out.push_back(s);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGradients, ::testing::ValuesIn(first_seeds()),
                         [](const auto& info) { return "From" + std::to_string(info.param); });

// The generator ---------------------------------------------------------------------------------------------
void collect(const std::vector<Line>& lines, std::set<std::string>& ops) {
  for (const Line& l : lines) {
    ops.insert(l.op);
    for (const Block& b : l.blocks) collect(b.lines, ops);
  }
}

TEST(RandomModels, HoldEverything) {
  std::set<std::string> ops, rules, types;
  std::size_t batched = 0, shared = 0, permuted = 0, loops = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kModels; ++seed) {
    const ModelDescription m = draw_model(seed);
    EXPECT_EQ(to_string(m), to_string(draw_model(seed)));
    collect(m.lines, ops);
    batched += m.batched() ? 1 : 0;
    loops += m.policy.scan_unroll_limit == 1 ? 1 : 0;
    std::map<std::string, int> uses;
    for (const Line& l : m.lines)
      for (const std::string& n : l.in) ++uses[n];
    bool some = false;
    for (const ModelPort& p : m.ports) {
      types.insert(p.type);
      some = some || (p.role == Role::Param && uses[p.name] > 1);
    }
    shared += some ? 1 : 0;
    for (std::size_t i = 1; i < m.next.size(); ++i)
      permuted += m.port(m.next[i].first) < m.port(m.next[i - 1].first) ? 1 : 0;
    for (const RuleChoice& r : options_for(m, seed, 2).rules) rules.insert(r.row);
  }
  for (const char* op :
       {"matmul",     "grouped",   "element_wise", "embedding",    "einsum",    "sparse",
        "lora",       "conv1",     "conv2",        "conv3",        "plain",     "etp_constant",
        "mask",       "transpose", "slice",        "normalize",    "center",    "add_sum",
        "layer_norm", "product",   "roll",         "over_samples", "spike",     "spike_jvp",
        "spike_vjp",  "jit",       "cond",         "scan",         "while",     "noise",
        "stack",      "stop",      "select",       "resize",       "reproject", "join"})
    EXPECT_TRUE(ops.contains(op)) << op;
  for (const char* type : {"HiddenState", "HiddenGroupState", "ShortTermState", "key", "index"})
    EXPECT_TRUE(types.contains(type)) << type;
  for (const RuleRow* row : rule_rows()) EXPECT_TRUE(rules.contains(row->name)) << row->name;
  for (const std::size_t n : {batched, kModels - batched, shared, permuted}) EXPECT_GT(n, kModels / 10);
  EXPECT_GT(loops, 2U);
}

TEST(RandomModels, PrunedAndPrinted) {
  ModelDescription m;
  m.sizes = {{"n", 2}, {"m", 3}};
  m.ports = {{Role::Arg, "x", {"n"}, ""},
             {Role::Hidden, "h", {"n"}, "HiddenState"},
             {Role::Param, "w", {"n", "n"}, "ParamState"},
             {Role::Param, "dead", {"m"}, "ParamState"}};
  m.lines = {{{"y"}, "matmul", {"x", "w"}},
             {{"unused"}, "tanh", {"y"}},
             {{"v"}, "jit", {"y"}, {}, {}, {{{"a"}, {"b"}, {{{"b"}, "scale", {"a"}, {0.5}}}}}}};
  m.next = {{"h", "v"}};
  m.result = "h";
  prune(m);
  EXPECT_EQ(to_string(m),
            "sizes n=2, 7 steps, random 0\n"
            "arg x [n]\n"
            "hidden h [n] HiddenState\n"
            "param w [n,n] ParamState\n"
            "y = matmul(x, w)\n"
            "v = jit(y) { a ->\n"
            "  b = scale(a; 0.5)\n"
            "  -> b }\n"
            "result h\n"
            "h <- v\n");
  EXPECT_TRUE(smooth(m));
  EXPECT_EQ(to_model(m).outputs.size(), 3U);
  m.lines.push_back({{"z"}, "nothing", {"y"}});
  expect_error<ValueError>("no operation nothing", [&] { to_model(m); });
}

// Records are matched by path and leaf: in another order the model is the same, and so is its gradient.
TEST(RandomModels, OrderOfRecordsMeansNothing) {
  std::size_t compared = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 25; ++seed) {
    const ModelDescription m = draw_model(seed);
    ModelDescription other = m;
    std::reverse(other.ports.begin(), other.ports.end());
    std::reverse(other.next.begin(), other.next.end());
    other.result_first = !m.result_first;
    SCOPED_TRACE(to_string(m));
    std::vector<ParamValues> found;
    for (const ModelDescription* d : std::initializer_list<const ModelDescription*>{&m, &other}) try {
        Model model = to_model(*d);
        CompileOptions options;
        options.control_flow = m.policy;
        const std::unique_ptr<Learner> learner =
            std::make_unique<Learner>(make_learner(model, InWindows(D_RTRL()), options));
        Arrays args = draw_values(to_model(m), 5, 0).sequences;
        const Array targets = args.back();
        args.pop_back();
        Sequence data{args, targets};
        if (d != &m) std::reverse(data.args.begin(), data.args.end());
        found.push_back(online(*learner, data, 2));
      } catch (const NotSupportedError&) {
      } catch (const CompilationError& e) {
        EXPECT_TRUE(e.stage() == "compile" || e.stage() == "module_info") << e.what();
      }
    ASSERT_NE(found.size(), 1U) << "refused in one order";
    if (found.empty()) continue;
    for (std::size_t i = 0; i < found[0].leaves.size(); ++i) {
      const std::string leaf = to_string(found[0].leaves[i]);
      const double size = norm(found[0].values[i]);
      EXPECT_LE(norm(found[1].at(leaf) - found[0].values[i]), 1e-9 * size + 1e-13) << leaf;
      compared += size > 1e-8 ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 25U);
}

TEST(RandomModels, ALeafThatIsMissingIsAnError) {
  ModelDescription m;
  m.sizes = {{"n", 2}};
  m.ports = {{Role::Arg, "x", {"n"}, ""},
             {Role::Hidden, "h", {"n"}, "HiddenState"},
             {Role::Param, "p:weight", {"n", "n"}, "ParamState"}};
  m.lines = {{{"y"}, "matmul", {"x", "p:weight"}}};
  m.next = {{"h", "y"}};
  m.result = "y";
  Model model = to_model(m);
  EXPECT_NO_THROW(compile_etrace_graph(model));
  for (InputRecord& in : model.inputs)
    if (in.role == Role::Param) in.leaf = 1;
  for (OutputRecord& out : model.outputs)
    if (out.role == Role::Param) out.leaf = 1;
  expect_error<CompilationError>("parameter p has no leaf 0", [&] { compile_etrace_graph(model); });
}

// The judge -------------------------------------------------------------------------------------------------
// h ← 0.7 h + tanh(x·w + b), read after the step: everything is exact.
ModelDescription leaky_description() {
  ModelDescription m;
  m.sizes = {{"i", 3}, {"n", 2}};
  m.ports = {{Role::Arg, "x", {"i"}, ""},
             {Role::Hidden, "h", {"n"}, "HiddenState"},
             {Role::Param, "w", {"i", "n"}, "ParamState"},
             {Role::Param, "b", {"n"}, "ParamState"}};
  m.lines = {{{"y"}, "matmul", {"x", "w", "b"}},
             {{"t"}, "tanh", {"y"}},
             {{"k"}, "scale", {"h"}, {0.7}},
             {{"v"}, "add", {"k", "t"}}};
  m.next = {{"h", "v"}};
  m.result = "v";
  return m;
}

JudgeOptions with_rule(const std::string& label) {
  JudgeOptions o;
  for (const RuleChoice& r : rule_choices())
    if (r.label == label) o.rules.push_back(r);
  EXPECT_EQ(o.rules.size(), 1U) << label;
  o.differences = true;
  o.whole_sequence = true;
  return o;
}
std::set<Fault> faults(const Judgement& j) {
  std::set<Fault> out;
  for (const Finding& f : j.findings) out.insert(f.fault);
  return out;
}
using Faults = std::set<Fault>;

TEST(GradientJudge, FindsNothingWhereAllIsWell) {
  const Model m = to_model(leaky_description());
  for (const char* rule : {"D_RTRL", "SnAp", "OSTLRecurrent", "EProp", "UORO", "pp_prop"}) {
    const Judgement j = judge(m, with_rule(rule));
    for (const Finding& f : j.findings) ADD_FAILURE() << to_string(f);
    EXPECT_GT(j.exact, 0U);  // the window of the whole sequence at least
    EXPECT_EQ(j.dead, 0U);
  }
}

TEST(GradientJudge, ReferencesAreOneGradient) {
  const Model m = to_model(leaky_description());
  const ValueDraw d = draw_values(m, 7, 0);
  const DenseRtrl64 rtrl(m);
  const ReferenceGradient a = rtrl(d), b = reverse_mode(m, d);
  ASSERT_EQ(a.leaves.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < a.leaves[i].size(); ++k) {
      EXPECT_NEAR(a.leaves[i][k], b.leaves[i][k], 1e-12 * a.magnitude[i]);
      EXPECT_GT(std::abs(a.leaves[i][k]), 1e-3);
    }
  EXPECT_LT(difference_along(rtrl, d, a, 1).deviation(), 1e-8);
  EXPECT_TRUE(difference_along(rtrl, d, a, 1).differentiable());
  EXPECT_FALSE(difference_along(rtrl, d, a, 1).contradicts());
  ReferenceGradient wrong = a;
  wrong.leaves[0][1] += 0.1;
  EXPECT_TRUE(difference_along(rtrl, d, wrong, 1).contradicts());
  for (const Numbers& leaf : rtrl.beside_states(d).leaves)
    for (const double x : leaf) EXPECT_EQ(x, 0.0);
  EXPECT_NE(draw_values(m, 7, 1).params[0].tensor().to_doubles(), d.params[0].tensor().to_doubles());
}

// Differences say nothing where the loss has a kink or a jump, and are taken beside one that is near.
TEST(GradientJudge, DifferencesBesideAKink) {
  ModelDescription m;
  m.sizes = {{"n", 2}};
  m.ports = {{Role::Arg, "x", {"n"}, ""},
             {Role::Hidden, "h", {"n"}, "HiddenState"},
             {Role::Param, "p", {"n"}, "ParamState"}};
  m.lines = {{{"y"}, "mul", {"x", "p"}}, {{"a"}, "abs", {"y"}}};
  m.next = {{"h", "a"}};
  m.result = "a";
  const Model model = to_model(m);
  const DenseRtrl64 rtrl(model);
  const auto at_parameter = [&](double p) {
    ValueDraw d = draw_values(model, 3, 0);
    d.params[0] = full({2}, p, Dtype::F64);
    return difference_along(rtrl, d, rtrl(d), 1);
  };
  for (const double p : {0.5, 1e-4}) {
    EXPECT_TRUE(at_parameter(p).differentiable()) << p;
    EXPECT_FALSE(at_parameter(p).contradicts()) << p;
  }
  EXPECT_FALSE(at_parameter(0.0).differentiable());
  EXPECT_FALSE(at_parameter(0.0).contradicts());
}

// The rule brings what passes hidden states, reverse mode all else.
TEST(GradientJudge, OwnStepIntoAStateThatIsNotHidden) {
  ModelDescription m;
  m.sizes = {{"i", 4}, {"n", 4}};
  m.ports = {{Role::Arg, "x", {"i"}, ""},
             {Role::Param, "w", {"i", "n"}, "ParamState"},
             {Role::Hidden, "h", {"n"}, "HiddenState"},
             {Role::Other, "s", {"n"}, "ShortTermState"}};
  m.lines = {{{"a"}, "matmul", {"x", "w"}}, {{"b"}, "matmul", {"x", "w"}}};
  m.next = {{"h", "b"}, {"s", "a"}};
  m.result = "a";
  const Judgement j = judge(to_model(m), with_rule("pp_prop"));
  for (const Finding& f : j.findings) ADD_FAILURE() << to_string(f);
  EXPECT_EQ(j.approximate, 0U);
}

// q = x·p acts on the state by a way that is never open: statements say so, or that values decide.
TEST(GradientJudge, WaysThatAreNeverOpen) {
  const std::vector<std::vector<Line>> ways{// entries that nobody reads
                                            {{{"s"}, "stack", {"t", "q"}}, {{"e"}, "entry", {"s"}, {0}}},
                                            // the side of a choice on which no value falls
                                            {{{"g"}, "logistic", {"x"}}, {{"e"}, "select", {"g", "t", "q"}}},
                                            {{{"a"}, "abs", {"q"}},
                                             {{"b"}, "scale", {"a"}, {-0.5}},
                                             {{"u"}, "relu", {"b"}},
                                             {{"e"}, "add", {"t", "u"}}}};
  for (const std::vector<Line>& way : ways) {
    ModelDescription m;
    m.sizes = {{"n", 3}};
    m.ports = {{Role::Arg, "x", {"n"}, ""},
               {Role::Hidden, "h", {"n"}, "HiddenState"},
               {Role::Param, "w", {"n", "n"}, "ParamState"},
               {Role::Param, "p", {"n"}, "ParamState"}};
    m.lines = {{{"y"}, "matmul", {"x", "w"}},
               {{"t"}, "tanh", {"y"}},
               {{"k"}, "scale", {"h"}, {0.7}},
               {{"q"}, "mul", {"x", "p"}}};
    m.lines.insert(m.lines.end(), way.begin(), way.end());
    m.lines.push_back({{"v"}, "add", {"k", "e"}});
    m.lines.push_back({{"r"}, "add", {"v", "q"}});
    m.next = {{"h", "v"}};
    m.result = "r";
    const Judgement j = judge(to_model(m), with_rule("D_RTRL"));
    for (const Finding& f : j.findings) ADD_FAILURE() << to_string(f) << "\n" << to_string(m);
    EXPECT_GT(j.exact, 0U);
  }
}

// h ← h + tanh(mask∘w)·softmax(h): with a mask that leaves one entry, the other one never moves, and what
// couples the two meets nothing. No structure says so; values do.
TEST(GradientJudge, WaysThatCancelForAllValues) {
  std::size_t never = 0;
  for (int seed = 1; seed < 40; ++seed) {
    ModelDescription m;
    m.sizes = {{"n", 2}};
    m.ports = {{Role::Arg, "x", {"n"}, ""},
               {Role::Param, "w", {"n"}, "ParamState"},
               {Role::Hidden, "h", {"n"}, "HiddenState"}};
    m.lines = {{{"k"}, "mask", {"w"}, {static_cast<double>(seed)}},
               {{"y"}, "element_wise", {"k"}, {1, 1}},
               {{"s"}, "softmax", {"h"}},
               {{"d"}, "mul", {"y", "s"}},
               {{"v"}, "add", {"h", "d"}}};
    m.next = {{"h", "v"}};
    m.result = "v";
    const Judgement j = judge(to_model(m), with_rule("D_RTRL"));
    for (const Finding& f : j.findings) ADD_FAILURE() << to_string(f) << "\n" << to_string(m);
    never += j.approximate == 0 && j.possibly > 0 ? 1 : 0;
  }
  EXPECT_GT(never, 0U);
  EXPECT_LT(never, 39U) << "where both entries are left they couple";
}

// Negative controls: every fault is found.
TEST(GradientJudge, FindsAGradientThatIsSlightlyWrong) {
  const Model m = to_model(leaky_description());
  const auto scaled = [](VjpMethod method, std::int64_t window) {
    return [=](const RuleChoice&, const RunMethod& run, ParamValues& g) {
      if (run.vjp == method && run.window == window) g.values[1] = g.values[1] * (1.0 + 1e-8);
    };
  };
  const JudgeOptions o = with_rule("D_RTRL");
  EXPECT_EQ(faults(judge(m, o, scaled(VjpMethod::SingleStep, 1))),
            (Faults{Fault::FalseExact, Fault::WindowDependent, Fault::FirstStep}));
  EXPECT_EQ(faults(judge(m, o, scaled(VjpMethod::SingleStep, 3))), Faults{Fault::WindowDependent});
  EXPECT_EQ(faults(judge(m, o, scaled(VjpMethod::MultiStep, 2))), Faults{Fault::FalseExact});
  EXPECT_EQ(faults(judge(m, o, scaled(VjpMethod::MultiStep, 7))), Faults{Fault::NotReverseMode});
  const Tamper nan = [](const RuleChoice&, const RunMethod&, ParamValues& g) {
    g.values[0] = g.values[0] / 0.0;
  };
  EXPECT_EQ(faults(judge(m, o, nan)), (Faults{Fault::NotFinite, Fault::WindowDependent, Fault::FirstStep}));
  // A rule of which the first step alone is judged.
  JudgeOptions first = o;
  first.rules = {};
  first.first_step = with_rule("pp_prop").rules;
  EXPECT_EQ(faults(judge(m, first)), Faults{});
  EXPECT_EQ(judge(m, first).first_steps, 4U);  // two leaves, single steps and windows
  EXPECT_EQ(faults(judge(m, first, scaled(VjpMethod::SingleStep, 1))), Faults{Fault::FirstStep});
  EXPECT_EQ(faults(judge(m, first, scaled(VjpMethod::MultiStep, 1))), Faults{Fault::FirstStep});
  for (const Finding& f : judge(m, o, scaled(VjpMethod::MultiStep, 2)).findings) EXPECT_EQ(f.leaf, "b");
}

// A rule with another's name and something of its own.
struct OddRule : D_RTRL {
  std::function<void()> on_bind = [] {};
  bool modest = false;
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<OddRule>(*this); }
  Theory theory(bool carried) const override {
    return modest ? Theory{Theory::Approximate, "says so"} : D_RTRL::theory(carried);
  }
  std::unique_ptr<const BoundRule> bind(const ETraceGraph& g) const override {
    on_bind();
    return D_RTRL::bind(g);
  }
};
JudgeOptions with_rule(const std::shared_ptr<const LearningRule>& rule) {
  JudgeOptions o = with_rule("D_RTRL");
  o.rules[0].rule = rule;
  return o;
}

// Forgets until its first gradient has been looked at: what was seen of it is true no longer.
struct RecoveringRule : ForgetfulRule {
  std::shared_ptr<bool> recovered = std::make_shared<bool>(false);
  RecoveringRule() : ForgetfulRule(ForgetfulRule::Trace) {}
  std::shared_ptr<const LearningRule> clone() const override {
    return std::make_shared<RecoveringRule>(*this);
  }
  Theory theory(bool) const override { return {Theory::Approximate, "says so"}; }
  std::unique_ptr<const BoundRule> bind(const ETraceGraph& g) const override {
    return *recovered ? D_RTRL::bind(g) : ForgetfulRule::bind(g);
  }
};

TEST(GradientJudge, FindsRulesThatForgetAndThoseThatAreTooModest) {
  const Model m = to_model(leaky_description());
  for (const auto what : {ForgetfulRule::Jacobian, ForgetfulRule::Trace}) {
    const Faults found = faults(judge(m, with_rule(std::make_shared<ForgetfulRule>(what))));
    EXPECT_TRUE(found.contains(Fault::FalseExact));
  }
  const auto recovering = std::make_shared<RecoveringRule>();
  const Tamper after_the_first = [&](const RuleChoice&, const RunMethod&, ParamValues&) {
    *recovering->recovered = true;
  };
  EXPECT_TRUE(faults(judge(m, with_rule(recovering), after_the_first)).contains(Fault::FalseApproximate));
  // What a rule says of itself and nobody has seen is a possibility.
  OddRule modest;
  modest.modest = true;
  const Judgement j = judge(m, with_rule(modest.clone()));
  EXPECT_EQ(faults(j), Faults{});
  EXPECT_EQ(j.approximate, 0U);
  EXPECT_GT(j.possibly, 0U);
}

TEST(GradientJudge, TellsRefusalsFromFailures) {
  const Model m = to_model(leaky_description());
  const auto judged = [&](const std::function<void()>& f) {
    OddRule odd;
    odd.on_bind = f;
    return judge(m, with_rule(odd.clone()));
  };
  const Judgement refused = judged([] { throw NotSupportedError("D_RTRL", "not today"); });
  EXPECT_TRUE(refused.findings.empty());
  EXPECT_GT(refused.refused, 0U);
  EXPECT_NE(refused.refusals.at(0).find("not today"), std::string::npos);
  EXPECT_EQ(faults(judged([] { throw InternalError("D_RTRL", "ours"); })), Faults{Fault::BrokenError});
  EXPECT_EQ(faults(judged([] { throw std::out_of_range("at"); })), Faults{Fault::BrokenError});
  EXPECT_EQ(faults(judged([] { throw ValueError("add", "shapes"); })), Faults{Fault::UntypedRefusal});
  EXPECT_EQ(faults(judged([] { throw CompilationError("scan", "carry"); })), Faults{Fault::UntypedRefusal});
}

TEST(GradientJudge, FindsRulesThatShouldBeEqual) {
  const Model m = to_model(leaky_description());
  JudgeOptions o = with_rule("EProp kappa_filter_decay=0.0");
  o.rules.push_back(with_rule("D_RTRL").rules[0]);
  EXPECT_TRUE(judge(m, o).findings.empty());
  const Tamper weaker = [](const RuleChoice& r, const RunMethod&, ParamValues& g) {
    if (r.label == "EProp kappa_filter_decay=0.0") g.values[0] = 0.5 * g.values[0];
  };
  EXPECT_TRUE(faults(judge(m, o, weaker)).contains(Fault::UnequalRules));
}

// Nothing may come through states without a signal.
TEST(GradientJudge, FindsLearningWithoutASignal) {
  ModelDescription d = leaky_description();
  const JudgeOptions o = with_rule("ThreeFactor modulator=0.0");
  EXPECT_TRUE(judge(to_model(d), o).findings.empty());
  const Tamper some = [](const RuleChoice&, const RunMethod&, ParamValues& g) {
    g.values[0] = g.values[0] + 1e-6;
  };
  EXPECT_TRUE(faults(judge(to_model(d), o, some)).contains(Fault::LearnsFromLoss));
  // What goes to the result directly stays.
  d.lines.push_back({{"r"}, "add", {"v", "y"}});
  d.result = "r";
  EXPECT_TRUE(judge(to_model(d), o).findings.empty());
}

// The shrinker ----------------------------------------------------------------------------------------------
TEST(ShrinkModel, KeepsWhatMatters) {
  // Two states and something that mixes positions, out of whatever there is.
  const StillFails mixes = [](const ModelDescription& m) {
    std::set<std::string> ops;
    collect(m.lines, ops);
    try {
      to_model(m);
    } catch (const Error&) {
      return false;
    }
    return (ops.contains("roll") || ops.contains("flip") || ops.contains("center")) && m.next.size() > 1;
  };
  std::size_t seen = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kModels && seen < 5; ++seed) {
    const ModelDescription m = draw_model(seed);
    if (!mixes(m)) continue;
    ++seen;
    const Shrunk s = shrink(m, mixes);
    EXPECT_TRUE(mixes(s.model));
    EXPECT_EQ(s.model.steps, 1);
    EXPECT_LE(s.model.lines.size(), 3U) << to_string(s.model);
    EXPECT_EQ(s.model.next.size(), 2U);
  }
  EXPECT_EQ(seen, 5U);
}

TEST(ShrinkModel, OneFileHoldsTheFailure) {
  ModelDescription m = draw_model(kFirstSeed);
  Finding found;
  JudgeOptions o = with_rule(std::make_shared<ForgetfulRule>(ForgetfulRule::Jacobian));
  for (std::uint64_t seed = kFirstSeed; found.rule.empty() && seed < kFirstSeed + kModels; ++seed) {
    m = draw_model(seed);
    o.policy = m.policy;
    for (const Finding& f : judge(to_model(m), o).findings)
      if (f.fault == Fault::FalseExact && f.run.vjp == VjpMethod::MultiStep && std::isfinite(f.deviation))
        found = f;
  }
  ASSERT_FALSE(found.rule.empty());
  const MinimalCase c = minimal_case(m, found, o);
  EXPECT_LE(c.model.lines.size(), 4U) << report(c);
  EXPECT_EQ(c.finding.fault, Fault::FalseExact);
  const Model file = read_model(report_file(c, o));
  ASSERT_TRUE(file.expected && file.expected->runs);
  EXPECT_EQ(file.expected->runs->size(), 2U);
  EXPECT_EQ(file.expected->runs->at(1).algorithm, "D_RTRL");
  EXPECT_NE(file.note.find("called exact, is not"), std::string::npos);
  EXPECT_NE(file.equations.find("steps"), std::string::npos);
  EXPECT_TRUE(faults(judge(file, only(c.finding, o))).contains(Fault::FalseExact));
}

}  // namespace
}  // namespace etrace
