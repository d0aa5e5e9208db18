// Gradients for tests of learning: reverse mode through the whole sequence (written without the learner), the
// learner's own sums, how far two gradients are apart, and rules that are wrong on purpose.
#pragma once

#include <string>
#include <vector>

#include "etrace/learner.h"
#include "etrace/model_io.h"

namespace etrace::testing {

// What a model is driven with. The loss of step t is weight_t·Σ (result − target_t)².
struct Sequence {
  Arrays args;      // per argument [T, …]
  Array targets;    // [T, …] of the first result
  Array weights{};  // [T]; undefined: ones

  std::int64_t length() const { return targets.shape()[0]; }
  Arrays all() const;  // arguments, then targets: what a step function gets
  Sequence part(std::int64_t begin, std::int64_t end) const;
};
// Floating arguments in [-1, 1), whole numbers in {0, 1, 2}.
Sequence draw_sequence(const Model&, std::int64_t steps, std::uint64_t seed = 7);

// Σ (result − target)²; for windows one number per step. The last slice is the target, the others are the
// model's arguments.
StepFunction squared_error(std::int64_t window = 1);

Arrays initial_states(const Model&);
ParamValues initial_params(const Model&);

// Losses and gradients of the whole sequence by reverse mode through the model's own program.
struct Bptt {
  Array losses;  // [T], unweighted
  ParamValues grads;
  Arrays states;  // after the last step
};
Bptt bptt(const Model&, const Sequence&);
// The same from other parameters and states.
Bptt bptt(const Model&, const Sequence&, ArraySpan params, ArraySpan states);

// Compiled for the rule, with the model's initial values.
Learner make_learner(const Model&, const LearningRule&, Compat = Compat::None, std::int64_t window = 32);
Learner make_learner(const Model&, const LearningRule&, CompileOptions, std::int64_t window = 32);

// Summed over the sequence, in calls of `window` steps (the last may be shorter); 0: one call of the driver,
// step by step.
ParamValues online(Learner&, const Sequence&, std::int64_t window = 0, bool freeze = false);

Arrays states_of(const Learner&);  // in the order of state_names()
Arrays traces_of(const Learner&);  // in the order of etraces()

ParamValues sum_of(const ParamValues&, const ParamValues&);

// ‖found − expected‖ / ‖expected‖ over all elements.
double relative_deviation(const Array& found, const Array& expected);
// The largest over the leaves, or over those named. A reference without life (norm ≤ 1e-8) fails the test.
double largest_deviation(const ParamValues& found, const ParamValues& expected,
                         const std::vector<std::string>& names = {});
void expect_gradients(const ParamValues& found, const ParamValues& expected, double tolerance,
                      const std::vector<std::string>& names = {});
double norm(const Array&);
double cosine(const Array&, const Array&);

// A rule that learners of this file run with reverse mode inside windows.
class InWindows : public LearningRule {
 public:
  explicit InWindows(const LearningRule& rule) : rule_(rule.clone()) {}
  std::string name() const override { return rule_->name(); }
  std::string describe() const override { return rule_->describe(); }
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<InWindows>(*this); }
  std::shared_ptr<const LearningRule> for_method(VjpMethod m) const override {
    return std::make_shared<InWindows>(*rule_->for_method(m));
  }
  void configure(CompileOptions& o) const override { rule_->configure(o); }
  const ETraceConfig* config() const override { return rule_->config(); }
  void require(VjpMethod m) const override { rule_->require(m); }
  bool takes_modulator() const override { return rule_->takes_modulator(); }
  Array standing_modulator() const override { return rule_->standing_modulator(); }
  Theory theory(bool carried) const override { return rule_->theory(carried); }
  std::unique_ptr<const BoundRule> bind(const ETraceGraph& g) const override { return rule_->bind(g); }

 private:
  std::shared_ptr<const LearningRule> rule_;
};
VjpMethod method_of(const LearningRule&);

// The rule of a row with options that let it show what it does: filters, random feedback, a modulator.
std::shared_ptr<const LearningRule> telling_rule(const RuleRow&);
// Rows whose rules run this way.
std::vector<const RuleRow*> rows_that_run(VjpMethod);

// D-RTRL that forgets: its Jacobians are zero, or its traces start anew in every window.
class ForgetfulRule : public D_RTRL {
 public:
  enum What { Jacobian, Trace };
  explicit ForgetfulRule(What what) : what_(what) {}
  std::shared_ptr<const LearningRule> clone() const override {
    return std::make_shared<ForgetfulRule>(*this);
  }
  std::unique_ptr<const BoundRule> bind(const ETraceGraph&) const override;

 private:
  What what_;
};

}  // namespace etrace::testing
