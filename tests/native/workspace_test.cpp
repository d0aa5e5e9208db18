// Programs that run one after the other share the memory of their intermediate values.
#include "core/workspace.h"

#include <gtest/gtest.h>

#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "native/compile.h"
#include "support/native.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using namespace testing;

// A product between two sums needs a value in between, of n² numbers.
Program squared(std::int64_t n) {
  return as_program(make_jaxpr(
      [](ArraySpan x) {
        const Array y = matmul_plain(x[0], x[0]);
        return Arrays{matmul_plain(y + 1.0, y)};
      },
      Avals{{Dtype::F32, {n, n}}}));
}

TEST(Workspace, ProgramsThatTakeTurnsNeedWhatTheLargestNeeds) {
  use_test_cache();
  const auto workspace = std::make_shared<Workspace>();
  const Backend& backend = find_backend("native");
  struct Case {
    Program program;
    std::shared_ptr<const Runnable> code;
    Tensor x, expected;
  };
  std::vector<Case> cases;
  std::size_t largest = 0, all = 0;
  for (const std::int64_t n : {16, 48, 32}) {
    const Program p = squared(n);
    const Tensor x = convert(Random(3).f64({n, n}), Dtype::F32).tensor();
    cases.push_back({p, compile_in(workspace, backend, p), x, run_interpreter(p, Tensors{x})[0]});
    largest = std::max(largest, cases.back().code->arena_bytes());
    all += cases.back().code->arena_bytes();
  }
  for (int turn = 0; turn < 3; ++turn)
    for (const Case& c : cases)
      EXPECT_TRUE(same_bits(run_program(*c.code, c.program, Tensors{c.x})[0], c.expected)) << turn;
  EXPECT_EQ(workspace->bytes(), largest);
  EXPECT_GT(all, largest + largest / 2);
  // Who finds it taken has memory of its own.
  ASSERT_NE(workspace->take(8), nullptr);
  EXPECT_EQ(workspace->take(8), nullptr);
  EXPECT_TRUE(
      same_bits(run_program(*cases[1].code, cases[1].program, Tensors{cases[1].x})[0], cases[1].expected));
  workspace->give_back();
  EXPECT_EQ(workspace->bytes(), largest);
}

TEST(Workspace, MoreThanTheMachineHasIsRefusedAndGivenBack) {
  Workspace w;
  EXPECT_THROW(w.take(kUncountable), ValueError);
  EXPECT_NE(w.take(64), nullptr);
}

}  // namespace
}  // namespace etrace
