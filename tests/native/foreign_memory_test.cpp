// Arrays over memory of somebody else: any alignment of the element gives the same bits on both engines, the
// owner lives as long as the array, and what the library keeps is a copy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "etrace/etrace.h"
#include "support/errors.h"
#include "support/native.h"

namespace etrace::testing::foreign_memory_test {
namespace {

// The numbers again, `offset` elements behind an address that is a multiple of 64.
Array moved(const Array& a, std::size_t offset) {
  const Tensor t = a.tensor();
  const std::size_t before = offset * size_of(t.dtype());
  auto block = std::make_shared<Tensor>(
      Tensor::uninitialized({Dtype::Bool, {static_cast<std::int64_t>(t.aval().bytes() + before)}}));
  std::byte* const to = block->writable() + before;
  std::memcpy(to, t.bytes(), t.aval().bytes());
  return Tensor::over(t.aval(), to, block);
}

struct Net : Module {
  explicit Net(Dtype d) : dtype(d) {}
  Dtype dtype;
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 7, 9, nn::CellOptions{.dtype = dtype});
  nn::Linear& out = child<nn::Linear>("out", 9, 5, nn::LinearOptions{.dtype = dtype});
  Array update(const Array& x) override { return out(rnn(x)); }
};

Arrays learned(const char* backend, Dtype dtype, std::size_t offset) {
  Net net(dtype);
  Learner learner = compile(net, D_RTRL{}, zeros({3, 7}, dtype), {.batch_size = 3, .backend = backend});
  const Array x = random::normal(random::key(1), {6, 3, 7}, dtype);
  const Array labels = array({0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2}, {6, 3}, Dtype::I32);
  const SequenceGradient found =
      learner.etrace_grad(moved(x, offset), moved(labels, offset), loss::cross_entropy);
  Arrays out = found.grads.values;
  out.push_back(found.losses);
  const Array now = squeeze(slice_axis(x, 0, 0, 1), {0});
  out.push_back(learner.step(moved(now, offset)).results[0].tensor());
  return out;
}

TEST(ForeignMemory, AnyAlignmentOfTheElementGivesTheSameBits) {
  use_test_cache();
  for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
    const Arrays expected = learned("interpreter", dtype, 0);
    for (const char* backend : {"interpreter", "native"})
      for (const std::size_t offset : {0U, 1U, 3U, 6U}) {
        const Arrays found = learned(backend, dtype, offset);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(same_bits(found[i].tensor(), expected[i].tensor()))
              << backend << " " << name(dtype) << " offset " << offset << " value " << i;
      }
  }
}

// Operations that read it directly, with vectors and without.
TEST(ForeignMemory, OperationsReadItAsItLies) {
  use_test_cache();
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64, Dtype::I32, Dtype::I64}) {
    const Array x = convert(random::normal(random::key(3), {13, 17}) * 5.0, dtype);
    const Aval type = x.aval();
    const Program p = as_program(make_jaxpr(
        [&](ArraySpan a) {
          // 16 bits are for storage: they are read by conversions and movements.
          const Array x = size_of(dtype) == 2 ? convert(a[0], Dtype::F32) : a[0];
          return Arrays{x + x, sum(x, {1}), transpose(a[0]), x * x, slice_axis(a[0], 1, 3, 9)};
        },
        std::span(&type, 1)));
    const Tensors expected = run_interpreter(p, to_tensors(Arrays{x}));
    for (const std::size_t offset : {1U, 5U}) {
      const Tensors given{moved(x, offset).tensor()};
      for (const Tensors& found : {run_interpreter(p, given), run_native(p, given)})
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(same_bits(found[i], expected[i])) << name(dtype) << " " << offset << " " << i;
    }
  }
}

TEST(ForeignMemory, TheOwnerLivesAsLongAsTheArray) {
  const auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  {
    const Array a = Tensor::over({Dtype::F32, {3}}, owner->data(), owner);
    const Array b = a;
    EXPECT_GT(owner.use_count(), 1);
    EXPECT_TRUE(a.tensor().foreign());
    EXPECT_FALSE((a + a).tensor().foreign());
  }
  EXPECT_EQ(owner.use_count(), 1);
}

// Facts about what is kept are remembered; it must not change behind the library's back.
TEST(ForeignMemory, WhatIsKeptIsACopy) {
  std::vector<float> memory{1, 2, 3};
  const Array a = Tensor::over({Dtype::F32, {3}}, memory.data());
  ParamState made(a), set(Array(zeros({3})));
  set.set(a);
  HiddenState start(a);
  const Aval type = a.aval();
  const ClosedJaxpr program = make_jaxpr([&](ArraySpan x) { return Arrays{x[0] + a}; }, std::span(&type, 1));
  memory[0] = 100;
  EXPECT_EQ(a.tensor().to_doubles()[0], 100.0);
  for (const State* s : std::initializer_list<const State*>{&made, &set, &start})
    EXPECT_EQ(s->value().tensor().to_doubles()[0], 1.0);
  start.reset();
  EXPECT_EQ(start.value().tensor().to_doubles()[0], 1.0);
  EXPECT_EQ(eval_jaxpr(program, Arrays{zeros({3})})[0].tensor().to_doubles()[0], 1.0);
}

// The same address is another array as soon as its owner has written it, or has given it back and somebody
// else has got it.
TEST(ForeignMemory, WhatChangesDuringARecordingIsAnotherConstant) {
  const Aval type{Dtype::F32, {3}};
  alignas(64) std::array<float, 3> memory{};
  const auto filled = [&](float v) {
    memory.fill(v);
    return Array(Tensor::over(type, memory.data()));
  };
  const Recording r = record(std::span(&type, 1), [&](ArraySpan x) {
    Array sum = x[0] + filled(1);
    sum = sum + filled(2);
    sum = sum + filled(2);  // the same numbers: no third constant
    return Arrays{sum * filled(4)};
  });
  EXPECT_EQ(r.captured.size(), 3u);
  memory.fill(100);
  EXPECT_EQ(eval_jaxpr(close(r), Arrays{zeros({3})})[0].tensor().to_doubles()[0], 20.0);
}

// A tensor of ours may come to lie where foreign memory was.
TEST(ForeignMemory, AnAddressThatWasForeignIsNoNameOfATensor) {
  const Aval type{Dtype::F32, {3}};
  const Tensor ours = Tensor::full(type, 2.0);
  auto* there = reinterpret_cast<float*>(const_cast<std::byte*>(ours.bytes()));
  const Recording r = record(std::span(&type, 1), [&](ArraySpan x) {
    std::fill(there, there + 3, 1.0F);
    const Array sum = x[0] + Array(Tensor::over(type, there));
    std::fill(there, there + 3, 2.0F);
    return Arrays{sum + Array(ours)};
  });
  EXPECT_EQ(eval_jaxpr(close(r), Arrays{zeros({3})})[0].tensor().to_doubles()[0], 3.0);
}

// What a step writes into a state is what the memory holds at that time.
struct Writer : Module {
  explicit Writer(std::vector<float>& m) : memory(m) {}
  std::vector<float>& memory;
  HiddenState& h = hidden("h", {3});
  Array update(const Array& x) override {
    h.set(Tensor::over({Dtype::F32, {3}}, memory.data()));
    memory[0] = 50;
    return x + h.value();
  }
};

TEST(ForeignMemory, AStateHoldsWhatItWasSetTo) {
  std::vector<float> memory{1, 2, 3};
  Writer model(memory);
  const TracedStep step = trace_step(model, Array(zeros({3})));
  const Arrays out = eval_jaxpr(step.model.program, Arrays{zeros({3}), zeros({3})});
  EXPECT_EQ(out[0].tensor().to_doubles()[0], 1.0);
  EXPECT_EQ(out[1].tensor().to_doubles()[0], 1.0);
}

TEST(ForeignMemory, AddressesThatDoNotSuitAreRefused) {
  alignas(8) std::array<std::byte, 32> memory{};
  EXPECT_THAT(message_of<ValueError>([&] {
                Tensor::over({Dtype::F32, {3}}, memory.data() + 2);
              }),
              ::testing::HasSubstr("does not suit its elements"));
  EXPECT_THAT(message_of<ValueError>([&] {
                Tensor::over({Dtype::F32, {3}}, nullptr);
              }),
              ::testing::HasSubstr("not there"));
  EXPECT_TRUE(Tensor::over({Dtype::F32, {0}}, nullptr).defined());
}

}  // namespace
}  // namespace etrace::testing::foreign_memory_test
