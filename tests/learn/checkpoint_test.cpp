// Checkpoints: a run that goes on from one is the run that was never interrupted, and what does not fit is
// refused with the difference.
#include "etrace/transform.h"
#include "learn/scenario.h"

#include <cstdio>
#include <filesystem>

namespace etrace {
namespace {

using namespace testing;

class Checkpoints : public ::testing::Test {
 protected:
  const Model model = operator_model(operator_case("mm_bias"), Structure::Coupled);
  const Sequence data = draw_sequence(model, 8);
};

void expect_same_bits(const ParamValues& a, const ParamValues& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (std::size_t i = 0; i < a.values.size(); ++i) EXPECT_EQ(a.values[i].tensor(), b.values[i].tensor());
}

TEST_F(Checkpoints, L118_ContinuationIsBitForBit) {
  const std::vector<std::shared_ptr<const LearningRule>> rules{
      std::make_shared<D_RTRL>(), std::make_shared<D_RTRL>(ParamDimOptions{.trace_dtype = Dtype::BF16}),
      std::make_shared<OSTLRecurrent>(), factorised(0.8)};
  for (const auto& rule : rules) {
    SCOPED_TRACE(rule->describe());
    Learner whole = make_learner(model, *rule), other = make_learner(model, *rule);
    online(whole, data.part(0, 5));
    const TensorFile file = whole.checkpoint();
    const ParamValues expected = online(whole, data.part(5, 8));
    online(other, data.part(2, 4));  // whatever it did before is gone
    other.restore(file);
    EXPECT_EQ(other.age(), 5);
    EXPECT_EQ(other.running_index(), 5);
    expect_same_bits(online(other, data.part(5, 8)), expected);
    for (std::size_t i = 0; i < traces_of(whole).size(); ++i)
      EXPECT_EQ(traces_of(whole)[i].tensor(), traces_of(other)[i].tensor());
  }
}

TEST_F(Checkpoints, FilesAndNotes) {
  const std::string path = ::testing::TempDir() + "etrace_learner_checkpoint.safetensors";
  Learner a = make_learner(model, D_RTRL()), b = make_learner(model, D_RTRL());
  online(a, data);
  a.save(path, nullptr, {{"epoch", "7"}, {"position", "42"}});
  const Learner::Notes notes = b.load(path);
  std::filesystem::remove(path);
  EXPECT_EQ(notes, (Learner::Notes{{"epoch", "7"}, {"position", "42"}}));
  for (std::size_t i = 0; i < traces_of(a).size(); ++i)
    EXPECT_EQ(traces_of(a)[i].tensor(), traces_of(b)[i].tensor());
  expect_error<IoError>("", [&] { b.load(path); });
}

// Refusals --------------------------------------------------------------------------------------------------
std::string refused(Learner& learner, const TensorFile& file) {
  const Arrays before = traces_of(learner);
  const ParamValues params = learner.params();
  std::string text = "accepted";
  try {
    learner.restore(file);
  } catch (const ValueError& e) {
    text = e.what();
  }
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(traces_of(learner)[i].tensor(), before[i].tensor());
  expect_same_bits(learner.params(), params);
  return text;
}

TEST_F(Checkpoints, RefusedWithTheDifference) {
  Learner learner = make_learner(model, D_RTRL()), source = make_learner(model, D_RTRL());
  online(source, data);
  const TensorFile good = source.checkpoint();
  using ::testing::AllOf;
  using ::testing::HasSubstr;

  TensorFile missing = good;
  const std::string gone = missing.tensors.back().first;
  missing.tensors.pop_back();
  EXPECT_THAT(refused(learner, missing), HasSubstr(gone + " is missing"));

  TensorFile surplus = good;
  surplus.tensors.emplace_back("memory/more", Tensor::zeros({Dtype::F32, {2}}));
  EXPECT_THAT(refused(learner, surplus), HasSubstr("memory/more f32[2] is not known here"));

  TensorFile reshaped = good;
  reshaped.tensors[0].second = Tensor::zeros({Dtype::F64, {9}});
  EXPECT_THAT(refused(learner, reshaped),
              AllOf(HasSubstr(reshaped.tensors[0].first + " has type f64[9] there"), HasSubstr("here")));

  TensorFile bare = good;
  bare.metadata.clear();
  EXPECT_THAT(refused(learner, bare), HasSubstr("it is not a learner's checkpoint"));

  Learner windows = make_learner(model, InWindows(D_RTRL()));
  EXPECT_THAT(refused(windows, good),
              HasSubstr("of the rule D_RTRL, single-step, this learner has D_RTRL, multi-step"));

  // The same names and types, another step.
  OperatorCase other = operator_case("mm_bias");
  other.drive = [](const In& in) { return sin(matmul(in["x"], in["w"], in["b"])); };
  Learner stranger = make_learner(operator_model(other, Structure::Coupled), D_RTRL());
  EXPECT_THAT(refused(stranger, good), HasSubstr("another program"));
  EXPECT_NE(stranger.fingerprint(), learner.fingerprint());
  EXPECT_EQ(source.fingerprint(), learner.fingerprint());
}

// With an optimiser -----------------------------------------------------------------------------------------
TEST(CheckpointsOfTraining, L118_WithTheOptimiser) {
  Random random(3);
  const Array x = random.f64({8, 2, 3}), y = random.f64({8, 2, 4});
  const auto run = [&](Learner& l, optim::Optimizer& o, std::int64_t begin, std::int64_t end) {
    l.etrace_train(slice_axis(x, 0, begin, end), slice_axis(y, 0, begin, end), loss::mse, o,
                   {{}, UpdateEvery::Step});
  };
  const Array example = zeros({2, 3}, Dtype::F64);
  LeakyNet a, b;
  Learner whole = compile(a, D_RTRL(), example, {.batch_size = 2}),
          part = compile(b, D_RTRL(), example, {.batch_size = 2});
  optim::Adam opt_a(a, 0.05), opt_b(b, 0.05);
  run(whole, opt_a, 0, 4);
  const TensorFile file = whole.checkpoint(&opt_a);
  run(whole, opt_a, 4, 8);
  part.restore(file, &opt_b);
  EXPECT_EQ(opt_b.step(), 4);
  run(part, opt_b, 4, 8);
  EXPECT_EQ(a.w.value().tensor(), b.w.value().tensor());
  EXPECT_EQ(a.v.value().tensor(), b.v.value().tensor());
  // Without its optimiser the checkpoint does not fit.
  EXPECT_THAT(refused(part, file), ::testing::HasSubstr("optimizer/"));
}

// Steps are counted in 32 bits, and a robot takes 2³¹ of them in 25 days. The smoothing of a factorised trace
// looks at the count.
TEST(Checkpoint, AnyAgeIsOldEnough) {
  LeakyNet net;
  Learner learner = compile(net, *factorised(0.9), zeros({3}, Dtype::F64), {.execution_window = 4});
  const Array x = Random(1).f64({9, 3}), y = Random(2).f64({9, 4});
  const auto gradient_at = [&](std::int32_t age) {
    learner.reset_state();
    learner.reset_model_state();
    TensorFile file = learner.checkpoint();
    for (auto& [name, value] : file.tensors)
      if (name == "memory/age" || name == "memory/calls")
        value = Tensor::full({Dtype::I32, {}}, std::int64_t{age});
    learner.restore(file);
    return learner.etrace_grad(x, y, loss::mse).grads.values[0];
  };
  const Array old = gradient_at(1'000'000);
  for (const std::int32_t age : {1'610'612'730, std::numeric_limits<std::int32_t>::max() - 5}) {
    EXPECT_EQ(relative_deviation(gradient_at(age), old), 0.0) << age;
    EXPECT_GT(learner.age(), 1'000'000'000);
    EXPECT_LT(learner.age(), std::numeric_limits<std::int32_t>::max() - 100'000'000);
  }
  EXPECT_GT(relative_deviation(gradient_at(0), old), 1e-3) << "the count matters";
}

// Keys say by their type whether a reset sets them back; what is no key by its type is a pair of numbers.
template <class Key>
struct Noisy : Module {
  Key& key = this->template state<Key>("key", 3);
  ShortTermState& pair = short_term("pair", array({7, 8}, {2}, Dtype::U32), false);
  HiddenState& h = hidden("h", {3}, Dtype::F64);
  ParamState& w = param("w", random::normal(random::key(1), {3, 3}, Dtype::F64));
  Array update(const Array& x) override {
    const Array keys = key.next(), old = h.value();
    const Function draw = [](ArraySpan k) { return Arrays{random::normal(k[0], {3}, Dtype::F64)}; };
    const Array noise = keys.rank() == 2 ? vmap(draw)(Arrays{keys})[0] : draw(Arrays{keys})[0];
    h.set(0.9 * old + matmul(x, w.value()) + noise + sum(convert(pair.value(), Dtype::F64)));
    return h.value();
  }
};
template <class Key>
void sequences_have(bool the_same_noise) {
  const Array x = zeros({4, 2, 3}, Dtype::F64);
  for (const bool vmap : {false, true})
    for (const std::optional<std::int64_t> batch : {std::optional<std::int64_t>(2), {}}) {
      if (vmap && !batch) continue;
      const Array xs = batch ? x : squeeze(slice_axis(x, 1, 0, 1), {1});
      const auto make = [&](Module& net) {
        return compile(net, D_RTRL(), item(xs, 0), {.batch_size = batch, .vmap = vmap});
      };
      const auto next = [&](Learner& l) {
        l.reset_model_state();
        const std::vector<double> pair = l.state("pair").tensor().to_doubles();
        EXPECT_EQ(std::vector(pair.begin(), pair.begin() + 2), (std::vector<double>{7, 8}));
        return l.etrace_evolve(Arrays{xs})[0].tensor();
      };
      Noisy<Key> net, fresh;
      Learner learner = make(net), resumed = make(fresh);
      const Tensor first = next(learner), second = next(learner);
      EXPECT_EQ(first == second, the_same_noise);
      resumed.restore(learner.checkpoint());
      const Tensor third = next(learner);
      EXPECT_EQ(next(resumed), third);
      EXPECT_EQ(second == third, the_same_noise);
      if (batch && (vmap || the_same_noise)) {
        const auto sample = [&](std::int64_t b) { return item(moveaxis(Array(first), 0, 1), b).tensor(); };
        EXPECT_NE(sample(0), sample(1)) << "each sample has noise of its own";
      }
    }
}
TEST(Checkpoint, NoiseOfARandomStateGoesOnOverResets) { sequences_have<RandomState>(false); }
TEST(Checkpoint, NoiseOfAKeyStateBeginsAnewWithEveryReset) { sequences_have<KeyState>(true); }

}  // namespace
}  // namespace etrace
