// Loops over time whose rows threads keep: one hand-over for all steps, and the interpreter's bits for any
// number of threads, with spikes, with what is not finite, and beside each other.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "base/interruptible.h"
#include "etrace/etrace.h"
#include "etrace/host.h"
#include "native/compile.h"
#include "runtime/thread_pool.h"
#include "support/native.h"

namespace etrace::testing::share_rows_test {
namespace {

struct Shape3 {
  std::int64_t steps, rows, units;
};

// v' = 0.9·(v − s) + s·W + x, s = [v > 1]; all v, and the sums of spikes by a readout.
Program spiking(const Shape3& n, Dtype d) {
  return as_program(make_jaxpr(
      [](ArraySpan in) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan x) -> ScanResult {
              const Array s = nn::spike(c[0] - 1.0, nn::surrogate::relu_grad(0.3, 1.0));
              const Array v = 0.9 * (c[0] - s) + matmul_plain(s, in[2]) + x[0];
              return {{v, 0.9 * c[1] + matmul_plain(s, in[3])}, {v}};
            },
            {in[0], zeros({in[0].shape()[0], 10}, in[0].dtype())}, {in[1]});
        return Arrays{r.carry[0], r.carry[1], r.ys[0]};
      },
      Avals{{d, {n.rows, n.units}},
            {d, {n.steps, n.rows, n.units}},
            {d, {n.units, n.units}},
            {d, {n.units, 10}}}));
}
Tensors numbers(const Program& p, double input) {
  Tensors out;
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    const Aval& a = p.arguments[i].aval;
    out.push_back((random::normal(random::key(7 + i), a.shape, a.dtype) * (i == 1 ? input : 0.2)).tensor());
  }
  return out;
}
// A pool that counts what it is asked for.
struct Counted {
  explicit Counted(int threads) : pool(threads) {}
  ThreadPool pool;
  std::atomic<int> calls{0};
  etp_context context() {
    return {pool.size(),
            [](void* self, std::int64_t parts, void (*f)(void*, std::int64_t), void* data) {
              auto* me = static_cast<Counted*>(self);
              ++me->calls;
              me->pool.parallel(static_cast<int>(parts), [&](int part) { f(data, part); });
            },
            this, nullptr};
  }
};

TEST(NativeShareRows, OneHandOverAndTheSameBits) {
  use_test_cache();
  for (const Dtype d : {Dtype::F32, Dtype::F64})
    for (const Shape3& n : {Shape3{20, 33, 70}, Shape3{9, 128, 96}}) {
      const Program p = spiking(n, d);
      for (const double input : {0.5, 3.0}) {  // few spikes, many
        const Tensors args = numbers(p, input);
        const Tensors expected = run_interpreter(p, args);
        for (const int threads : {1, 2, 7, 16, 40}) {
          Counted counted(threads);
          const auto code = native::compile_native(p, counted.context());
          for (int again = 0; again < 3; ++again) {  // what is known of the matrices changes
            counted.calls = 0;
            const Tensors found = run_program(*code, p, args);
            for (std::size_t i = 0; i < found.size(); ++i)
              EXPECT_TRUE(same_bits(found[i], expected[i])) << name(d) << " " << threads << " result " << i;
            EXPECT_EQ(counted.calls, threads == 1 ? 0 : 1) << threads;
          }
        }
      }
    }
}

TEST(NativeShareRows, TooFewRowsForTheThreadsShareEachStep) {
  use_test_cache();
  const Program p = spiking({6, 8, 256}, Dtype::F32);
  const Tensors args = numbers(p, 1.0);
  Counted few(4), many(20);
  const Tensors expected = run_interpreter(p, args);
  for (Counted* each : {&few, &many})
    EXPECT_TRUE(same_bits(run_program(*native::compile_native(p, each->context()), p, args)[2], expected[2]));
  EXPECT_EQ(few.calls, 1);
  EXPECT_GT(many.calls, 1);
}

TEST(NativeShareRows, WhatIsNotFiniteStaysInItsRow) {
  use_test_cache();
  const Program p = spiking({8, 24, 80}, Dtype::F32);
  for (const std::size_t where : {0U, 1U, 2U}) {
    Tensors args = numbers(p, 0.5);
    Tensor spoilt = Tensor::full(args[where].aval(), 0.0);
    std::memcpy(spoilt.writable(), args[where].bytes(), spoilt.aval().bytes());
    reinterpret_cast<float*>(spoilt.writable())[81] = std::numeric_limits<float>::infinity();
    reinterpret_cast<float*>(spoilt.writable())[7] = std::numeric_limits<float>::quiet_NaN();
    args[where] = spoilt;
    const Tensors expected = run_interpreter(p, args);
    for (const int threads : {2, 12}) {
      Counted counted(threads);
      const auto code = native::compile_native(p, counted.context());
      for (int again = 0; again < 3; ++again) {
        const Tensors found = run_program(*code, p, args);
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(same_bits(found[i], expected[i])) << where << " " << threads << " result " << i;
      }
    }
  }
}

// Threads that keep rows through all steps end together, when the thread of the call is told.
TEST(NativeShareRows, EndWhenTheyAreTold) {
  struct Stop : std::exception {};
  use_test_cache();
  const Program p = spiking({4000, 32, 80}, Dtype::F32);
  const Tensors args = numbers(p, 0.5);
  Counted counted(2);
  const auto code = native::compile_native(p, counted.context());
  std::thread([&] {  // whose clock begins here
    set_interrupt_hook([] { throw Stop(); });
    const Interruptible may_end;
    EXPECT_THROW(run_program(*code, p, args), Stop);
    set_interrupt_hook({});
  })
      .join();
  EXPECT_EQ(counted.calls, 1);
}

// Weights that are known to be finite are looked at again once they have another version.
TEST(NativeShareRows, WeightsThatChange) {
  use_test_cache();
  const Program p = spiking({8, 32, 80}, Dtype::F32);
  Tensors args = numbers(p, 0.4), spoilt = args;
  Tensor w = Tensor::full(args[2].aval(), 0.1);
  reinterpret_cast<float*>(w.writable())[5] = std::numeric_limits<float>::infinity();
  spoilt[2] = w;
  Counted counted(16);
  const auto code = native::compile_native(p, counted.context());
  const auto run = [&](const Tensors& with, std::uint64_t version) {
    const std::vector<std::uint64_t> versions(p.arguments.size(), version);
    Tensors out;
    std::vector<const void*> in;
    std::vector<void*> to;
    for (const Port& port : p.results) out.push_back(Tensor::full(port.aval, 0.0));
    for (const Tensor& t : with) in.push_back(t.bytes());
    for (Tensor& t : out) to.push_back(t.writable());
    code->run_at(versions.data(), in.data(), to.data());
    return out;
  };
  const Tensors right = run_interpreter(p, args), wrong = run_interpreter(p, spoilt);
  for (std::uint64_t version = 1; version < 7; ++version)
    for (int again = 0; again < 3; ++again)
      EXPECT_TRUE(
          same_bits(run(version % 2 == 1 ? args : spoilt, version)[2], (version % 2 == 1 ? right : wrong)[2]))
          << version;
}

// Whoever finds the pool taken runs its rows alone. ./dev tsan watches this.
TEST(NativeShareRows, OneProgramInSeveralThreads) {
  use_test_cache();
  const Program p = spiking({12, 32, 80}, Dtype::F32);
  const Tensors args = numbers(p, 0.6);
  const Tensors expected = run_interpreter(p, args);
  Counted counted(4);
  const auto code = native::compile_native(p, counted.context());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 8; ++k) {
        const Tensors found = run_program(*code, p, args);
        for (std::size_t r = 0; r < found.size(); ++r) wrong += same_bits(found[r], expected[r]) ? 0 : 1;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace etrace::testing::share_rows_test
