// Every learning rule on a CUDA device, step by step and in windows, against the interpreter.
#include "cuda/played_device.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

class CudaRules : public PlayedDevice {};

// Gradients of a sequence, states and traces after it.
Tensors learned(const Model& m, const LearningRule& rule, VjpMethod method, const std::string& backend) {
  CompileOptions options;
  rule.configure(options);
  Learner learner(compile_etrace_graph(m, options), rule,
                  {.vjp_method = method, .backend = backend, .execution_window = 3});
  const std::int64_t window = method == VjpMethod::SingleStep ? 1 : 3;
  SequenceOptions how{.reduction = Reduction::Sum};
  if (window > 1) how.chunk_size = window;
  const Arrays sequences{Random(1).f64({6, 2, 3}), Random(2).f64({6, 2, 4})};
  Tensors out;
  for (const Array& g : learner.etrace_grad(sequences, squared_error(window), how).grads.values)
    out.push_back(g.tensor());
  for (const Array& s : states_of(learner)) out.push_back(s.tensor());
  for (const Array& e : traces_of(learner)) out.push_back(e.tensor());
  return out;
}

void expect_agreement(VjpMethod method) {
  const std::vector<const RuleRow*> rows = rows_that_run(method);
  EXPECT_GE(rows.size(), 5U);
  for (const RuleRow* row : rows) {
    SCOPED_TRACE(row->name);
    const auto rule = telling_rule(*row);
    const Model m = tanh_rnn(2);
    const Tensors expected = learned(m, *rule, method, "interpreter"),
                  found = learned(m, *rule, method, "cuda");
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LE(distance(found[i], expected[i]), 1e-12) << i;
  }
}

TEST_F(CudaRules, StepByStep) { expect_agreement(VjpMethod::SingleStep); }
TEST_F(CudaRules, InWindows) { expect_agreement(VjpMethod::MultiStep); }

}  // namespace
}  // namespace etrace
