// The programs of learners by emitted code and by the interpreter: every built-in model, every rule, in
// float64 and float32, for several batches and numbers of threads. Programs of several learners stand side by
// side in one, so that one compilation serves all.
#include <gtest/gtest.h>

#include "etrace/etrace.h"
#include "runtime/thread_pool.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

struct LearnerCase {
  std::string model;
  std::shared_ptr<const LearningRule> rule;
  std::string program = "window";
  std::int64_t batch = 3;
  Dtype dtype = Dtype::F64;
  VjpMethod method = VjpMethod::SingleStep;
  std::int64_t hidden = 9;
  std::string name() const {
    return model + " " + rule->describe() + " batch " + std::to_string(batch) + " " +
           std::string(short_name(dtype)) + " " + std::string(etrace::name(method));
  }
};

// Programs side by side, with arguments.
class Together {
 public:
  void add(const LearnerCase& c) {
    const Dims own = find_builtin_model(c.model)->sizes;
    Dims sizes(own.size(), c.hidden);
    sizes.front() = 5, sizes.back() = 2;
    const ReadyModel ready = make_model(c.model, {.sizes = sizes, .batch = c.batch, .dtype = c.dtype});
    LearnerOptions how;
    how.batch_size = c.batch;
    how.vjp_method = c.method;
    how.execution_window = 3;
    const Learner learner = compile(*ready.module, *c.rule, ready.example, how);
    const StepFunction f = [](StepCall& m, ArraySpan s) -> LossAndAux { return {loss::mse(m(s[0]), s[1])}; };
    const Avals slices{ready.example[0].aval(), {c.dtype, {c.batch, 2}}};
    const Program p = learner.plan(f, slices).at(c.program);
    programs_.push_back(p);
    for (const Port& port : p.arguments) arguments_.push_back(value_of(port.aval));
    for (const Port& port : p.results) labels_.push_back(c.name() + ": " + p.name + ", " + port.name);
  }

  void compare() {
    Avals in;
    for (const Tensor& t : arguments_) in.push_back(t.aval());
    const Program all = as_program(make_jaxpr(
        [&](ArraySpan x) {
          Arrays out;
          std::size_t at = 0;
          for (const Program& p : programs_) {
            const Arrays results = eval_jaxpr(p.jaxpr, x.subspan(at, p.arguments.size()));
            out.insert(out.end(), results.begin(), results.end());
            at += p.arguments.size();
          }
          return out;
        },
        in));
    set_num_threads(1);
    const Tensors expected = run_interpreter(all, arguments_);
    ASSERT_EQ(expected.size(), labels_.size());
    for (const int threads : {1, 2, 5}) {
      set_num_threads(threads);
      const Tensors found = run_native(all, arguments_), interpreted = run_interpreter(all, arguments_);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(same_bits(found[i], expected[i]))
            << labels_[i] << ", " << threads << " threads: " << distance(found[i], expected[i]) << " away";
        EXPECT_TRUE(same_bits(interpreted[i], expected[i]))
            << labels_[i] << ", " << threads << " threads interpret";
      }
    }
    set_num_threads(1);
  }

  std::size_t size() const { return programs_.size(); }

 private:
  Tensor value_of(const Aval& aval) {
    if (!is_floating(aval.dtype)) return Tensor::full(aval, std::int64_t{3});
    const Array x = random::uniform(random::key(arguments_.size()), aval.shape, Dtype::F64, -1.0, 1.0);
    return convert(x, aval.dtype).tensor();
  }

  std::vector<Program> programs_;
  Tensors arguments_;
  std::vector<std::string> labels_;
};

// Those that the rule can do.
void compare_all(const std::vector<LearnerCase>& cases) {
  constexpr std::size_t kTogether = 10;
  Together some;
  std::size_t ran = 0;
  for (const LearnerCase& c : cases) {
    SCOPED_TRACE(c.name());
    try {
      c.rule->require(c.method);
      some.add(c);
      ++ran;
    } catch (const NotSupportedError&) {
    }
    if (some.size() < kTogether) continue;
    some.compare();
    some = {};
  }
  if (some.size() > 0) some.compare();
  EXPECT_GT(2 * ran, cases.size());
}

std::shared_ptr<const LearningRule> factorised() {
  RuleOptions options;
  options.set("decay_or_rank", 0.9);
  return make_rule("pp_prop", options);
}

TEST(SameLearners, OfEveryModel) {
  std::vector<LearnerCase> cases;
  for (const BuiltinModel& m : builtin_models()) {
    cases.push_back({.model = std::string(m.name), .rule = make_rule("D_RTRL")});
    cases.push_back({.model = std::string(m.name), .rule = factorised(), .program = "step", .batch = 7});
  }
  compare_all(cases);
}

TEST(SameLearners, OfEveryRule) {
  std::vector<LearnerCase> cases;
  for (const auto& rule : rules_to_compare())
    for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep})
      if (!rule->takes_modulator())  // a call gives it: rules_slow_test.cpp
        cases.push_back({.model = "gru", .rule = rule, .method = method, .hidden = 6});
  compare_all(cases);
}

TEST(SameLearners, WithTracesOfHalfPrecision) {
  std::vector<LearnerCase> cases;
  for (const char* dtype : {"f16", "bf16"})
    for (const char* model : {"gru", "lif_expon"}) {
      RuleOptions options;
      options.set("trace_dtype", dtype);
      cases.push_back({.model = model, .rule = make_rule("D_RTRL", options), .batch = 7});
    }
  compare_all(cases);
}

TEST(SameLearners, OfEveryBatch) {
  std::vector<LearnerCase> cases;
  for (const char* model : {"rnn", "gru", "lif_expon"})
    for (const std::int64_t batch : {1, 7, 33})
      for (const Dtype dtype : {Dtype::F32, Dtype::F64})
        cases.push_back({.model = model,
                         .rule = model == std::string("rnn") ? factorised() : make_rule("D_RTRL"),
                         .batch = batch,
                         .dtype = dtype,
                         .hidden = 70});
  compare_all(cases);
}

}  // namespace
}  // namespace etrace::testing
