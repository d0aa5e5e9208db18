// A call that is ended from outside: what its windows did until then stands, and nothing is half done.
#include <thread>

#include "etrace/host.h"
#include "learn/scenario.h"

namespace etrace::interrupt_test {
namespace {

using namespace testing;

struct Stop : std::exception {};

// Runs f on a thread of its own, whose clock begins there, and stops it when the hook is asked for the n-th
// time. True: it was stopped.
bool stopped(int n, const std::function<void()>& f) {
  int asked = 0;
  set_interrupt_hook([&] {
    if (++asked == n) throw Stop();
  });
  bool caught = false;
  std::thread([&] {
    try {
      f();
    } catch (const Stop&) {
      caught = true;
    }
  }).join();
  set_interrupt_hook({});
  return caught;
}

struct Net : Module {
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 3, 8);
  nn::Linear& out = child<nn::Linear>("out", 8, 2);
  Array update(const Array& x) override { return out(rnn(x)); }
};

constexpr std::int64_t kSteps = 20000;
const LearnerOptions kOptions{.batch_size = 2, .backend = "interpreter", .execution_window = 4};

TEST(Interrupt, BeforeTheFirstWindowNothingChanges) {
  Net net;
  Learner l = compile(net, D_RTRL{}, zeros({2, 3}), kOptions);
  optim::Adam adam(net, 0.01);
  const Array x = random::normal(random::key(1), {8, 2, 3}), y = zeros({8, 2, 2});
  const Array before = net.out.weight.value("weight");
  EXPECT_TRUE(stopped(1, [&] { l.etrace_train(x, y, loss::mse, adam, {}); }));
  EXPECT_EQ(l.age(), 0);
  EXPECT_EQ(before.tensor(), net.out.weight.value("weight").tensor());
  EXPECT_NO_THROW(l.etrace_train(x, y, loss::mse, adam, {}));
}

// Long enough that the clock lets the hook be asked on the way; if not, the next round goes on.
TEST(Interrupt, BetweenWindowsWhatWasDoneStands) {
  Net net, twin;
  Learner l = compile(net, D_RTRL{}, zeros({2, 3}), kOptions),
          reference = compile(twin, D_RTRL{}, zeros({2, 3}), kOptions);
  optim::SGD sgd(net, 0.01), other(twin, 0.01);
  const Array x = random::normal(random::key(1), {kSteps, 2, 3}),
              y = random::normal(random::key(2), {kSteps, 2, 2});
  TrainOptions each;
  each.update = UpdateEvery::Window;
  std::int64_t whole = 0;
  for (bool done = false; !done;) {
    const std::int64_t before = l.age();
    done = stopped(2, [&] { l.etrace_train(x, y, loss::mse, sgd, each); });
    const std::int64_t steps = l.age() - before;
    EXPECT_EQ(steps % 4, 0);
    EXPECT_EQ(done, steps < kSteps);
    if (steps > 0)
      reference.etrace_train(slice_axis(x, 0, 0, steps), slice_axis(y, 0, 0, steps), loss::mse, other, each);
    ASSERT_LT(++whole, 1000);
  }
  expect_same(traces_of(l), traces_of(reference));
  expect_same(states_of(l), states_of(reference));
  expect_same(l.params().values, reference.params().values);
  const Array next = random::normal(random::key(3), {8, 2, 3}), target = zeros({8, 2, 2});
  expect_same(l.etrace_grad(next, target, loss::mse).grads.values,
              reference.etrace_grad(next, target, loss::mse).grads.values);
}

}  // namespace
}  // namespace etrace::interrupt_test
