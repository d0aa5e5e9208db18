// What a model carries over resets: random keys that go on, and the mode that compiled programs see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/learner.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "support/errors.h"

namespace etrace {
namespace {

// h ← h/2 + x·W, and a dropout of what is read out.
struct Dropout : Module {
  RandomState& key = random_key("key", 3);
  Array update(const Array& x) override {
    const Array kept = random::bernoulli(key.next(), 0.5, x.shape());
    return where(training(), where(kept, 2.0 * x, 0.0), x);
  }
};
struct DroppingNet : Module {
  ParamState& w = param("w", full({2, 64}, 0.25, Dtype::F64));
  HiddenState& h = hidden("h", {64}, Dtype::F64);
  Dropout& drop = child<Dropout>("drop");
  Array update(const Array& x) override {
    h.set(0.5 * h.value() + matmul(x, w.value()));
    return drop(h.value());
  }
};

const Array kInput = full({2}, 1.0, Dtype::F64);

bool has_zero(const Array& y) {
  for (const double v : y.tensor().to_doubles())
    if (v == 0.0) return true;
  return false;
}

TEST(Mode, ReachesEveryModuleOfTheTreeAndNoOther) {
  DroppingNet net, other;
  EXPECT_TRUE(net.is_training());
  EXPECT_TRUE(has_zero(net(kInput)));
  net.drop.eval();  // one mode for the tree
  EXPECT_FALSE(net.is_training());
  EXPECT_TRUE(other.is_training());
  EXPECT_FALSE(has_zero(net(kInput)));
  net.train();
  EXPECT_TRUE(net.drop.is_training());
}

struct Outer : Module {
  struct Middle : Module {
    ModuleList& list = child<ModuleList>("list");
    Middle() { list.add<Dropout>(); }
  };
  Middle& middle = child<Middle>("middle");
};

TEST(Mode, ReachesModulesThatWereNestedBeforeTheRootWasThere) {
  Outer outer;
  outer.eval();
  EXPECT_FALSE(outer.middle.list[0].is_training());
}

TEST(Mode, IsAStateOfTracedStepsOnlyWhereItIsRead) {
  DroppingNet net;
  const TracedStep step = trace_step(net, kInput);
  std::size_t found = 0;
  for (const InputRecord& in : step.model.inputs)
    if (in.path == StatePath{"training_mode"}) {
      ++found;
      EXPECT_EQ(in.type, "ModeState");
      EXPECT_EQ(in.role, Role::Other);
    }
  EXPECT_EQ(found, 1u);
  EXPECT_TRUE(step.unknown.empty());

  struct Plain : Module {
    Array update(const Array& x) override { return 2.0 * x; }
  } plain;
  EXPECT_EQ(trace_step(plain, kInput).model.inputs.size(), 1u);
}

TEST(Mode, IsNoConstantOfATrace) {
  struct Asking : Module {
    Array update(const Array& x) override { return is_training() ? x : 2.0 * x; }
  } asking;
  EXPECT_TRUE(asking.is_training());
  EXPECT_THAT(testing::message_of<NotSupportedError>([&] { trace_step(asking, kInput); }),
              ::testing::HasSubstr("where(training(), a, b)"));
}

TEST(Mode, ACompiledLearnerSeesTheChange) {
  for (const bool lanes : {false, true}) {
    DroppingNet net;
    LearnerOptions options;
    if (lanes) {
      options.vmap = true;
      options.batch_size = 2;
    }
    const Array x = lanes ? full({2, 2}, 1.0, Dtype::F64) : kInput;
    Learner learner = compile(net, "D_RTRL", Arrays{x}, options);
    EXPECT_TRUE(has_zero(learner(x)));
    net.eval();
    EXPECT_FALSE(has_zero(learner(x)));
    learner.reset_model_state();
    EXPECT_FALSE(net.is_training());  // a reset is no change of mode
    net.train();
    EXPECT_TRUE(has_zero(learner(x)));
  }
}

std::vector<double> noise(Learner& learner, const Array& x) { return learner(x).tensor().to_doubles(); }

TEST(RandomKeys, GoOnOverResetsAndRepeatFromASeed) {
  DroppingNet net;
  Learner learner = compile(net, "D_RTRL", Arrays{kInput});
  std::vector<std::vector<double>> seen;
  for (int sequence = 0; sequence < 3; ++sequence) {
    learner.reset_model_state();
    seen.push_back(noise(learner, kInput));
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
  net.drop.key.seed(3);
  learner.reset_model_state();
  EXPECT_EQ(noise(learner, kInput), seen[0]);
}

TEST(RandomKeys, DifferBetweenLanes) {
  DroppingNet net;
  LearnerOptions options;
  options.vmap = true;
  options.batch_size = 2;
  const Array x = full({2, 2}, 1.0, Dtype::F64);
  Learner learner = compile(net, "D_RTRL", Arrays{x}, options);
  const std::vector<double> first = noise(learner, x);
  EXPECT_NE(std::vector<double>(first.begin(), first.begin() + 64),
            std::vector<double>(first.begin() + 64, first.end()));
  learner.reset_model_state();
  EXPECT_NE(noise(learner, x), first);
}

TEST(RandomKeys, OfAKeyStateAreSetBackByEveryReset) {
  const auto keys = [](std::optional<std::int64_t> batch) {
    KeyState state(7);
    std::vector<std::vector<double>> out;
    for (int i = 0; i < 3; ++i) {
      state.init(batch);
      out.push_back(state.value().tensor().to_doubles());
      const Array drawn = state.next();
      EXPECT_NE(drawn.tensor().to_doubles(), out.back());
      EXPECT_NE(state.value().tensor().to_doubles(), out.back()) << "it moves on";
    }
    return out;
  };
  const auto single = keys({}), batched = keys(2);
  EXPECT_EQ(single[0], random::key(7).tensor().to_doubles());
  EXPECT_EQ(single[1], single[0]);
  EXPECT_EQ(batched[2], batched[0]);
  ASSERT_EQ(batched[0].size(), 4U);
  EXPECT_NE(std::vector(batched[0].begin(), batched[0].begin() + 2),
            std::vector(batched[0].begin() + 2, batched[0].end()));
  KeyState seeded(7);
  seeded.init(2);
  seeded.seed(8);
  EXPECT_EQ(seeded.initial()[0].tensor(), random::key(8).tensor());
  EXPECT_NE(seeded.value().tensor().to_doubles(), batched[0]);
}

TEST(RandomKeys, ArePairsOfNumbersNowhereElse) {
  ShortTermState pair(array({7, 8}, {2}, Dtype::U32));
  pair.init(2);
  EXPECT_EQ(pair.value().tensor().to_doubles(), (std::vector<double>{7, 8, 7, 8}));
  pair.set(zeros({2, 2}, Dtype::U32));
  pair.reset();
  EXPECT_EQ(pair.value().tensor().to_doubles(), (std::vector<double>{7, 8, 7, 8}));
}

TEST(RandomKeys, AStateOfAnotherTypeIsRefused) {
  EXPECT_THAT(testing::message_of<TypeError>([] { RandomState state(zeros({3})); }),
              ::testing::HasSubstr("random::key(seed)"));
  EXPECT_THAT(testing::message_of<TypeError>([] { KeyState state(zeros({3})); }),
              ::testing::HasSubstr("a KeyState holds a random key u32[2]"));
}

}  // namespace
}  // namespace etrace
