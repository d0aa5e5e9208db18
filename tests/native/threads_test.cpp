// Several threads at once: learners with background compilation, and one cache. ./dev tsan watches these.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "etrace/etrace.h"
#include "native/background.h"
#include "native/cache.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

constexpr std::size_t kThreads = 4;

template <class F>
void in_threads(const F& f) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back([&f, i] { f(i); });
  for (std::thread& t : threads) t.join();
}

// A model of its own, two gradients and steps in real time; the compiler works beside them.
Arrays learned(const char* backend) {
  const ReadyModel ready = make_model("rnn", {.sizes = {3, 6, 2}, .batch = 2, .seed = 5});
  LearnerOptions options;
  options.batch_size = 2;
  options.execution_window = 2;
  options.backend = backend;
  Learner learner = compile(*ready.module, D_RTRL{}, ready.example, options);
  const Array xs = random::normal(random::key(1), {4, 2, 3}), ys = random::normal(random::key(2), {4, 2, 2});
  Arrays out;
  for (int round = 0; round < 6; ++round) {
    const SequenceGradient g = learner.etrace_grad(xs, ys, loss::mse);
    out.insert(out.end(), g.grads.values.begin(), g.grads.values.end());
    if (round == 2) native::wait_for_compilations();
  }
  return out;
}

TEST(NativeThreads, LearnersInSeveralThreadsLearnTheSame) {
  use_test_cache();
  const Arrays expected = learned("interpreter");
  std::vector<Arrays> found(kThreads);
  in_threads([&](std::size_t i) { found[i] = learned(i % 2 == 0 ? "auto" : "native"); });
  for (const Arrays& each : found) {
    ASSERT_EQ(each.size(), expected.size());
    for (std::size_t k = 0; k < each.size(); ++k) EXPECT_TRUE(each[k].tensor() == expected[k].tensor()) << k;
  }
}

TEST(NativeThreads, OneProgramRunsInSeveralThreads) {
  use_test_cache();
  const Aval v{Dtype::F32, {4096}};
  const Program p = as_program(make_jaxpr(
      [](ArraySpan x) {
        return Arrays{tanh(x[0]) * 2.0, sum(x[0])};
      },
      std::span(&v, 1)));
  const Tensors args{random::normal(random::key(3), {4096}).tensor()};
  const Tensors expected = run_interpreter(p, args);
  const auto code = find_backend("auto").compile(p);
  in_threads([&](std::size_t) {
    for (int round = 0; round < 20; ++round) {
      const Tensors found = run_program(*code, p, args);
      for (std::size_t k = 0; k < found.size(); ++k) EXPECT_TRUE(found[k] == expected[k]);
      if (round == 10) native::wait_for_compilations();
    }
  });
}

TEST(NativeThreads, OneCacheServesAll) {
  const std::string folder = ::testing::TempDir() + "/etrace-threads-" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  std::atomic<int> made{0};
  in_threads([&](std::size_t i) {
    const native::Cache cache(folder);
    for (int round = 0; round < 8; ++round) {
      const std::string key = "key " + std::to_string((static_cast<int>(i) + round) % 3);
      const std::string path = cache.object(key, [&](const std::string& to) {
        std::ofstream(to) << "made for " << key;
        ++made;
      });
      std::ifstream in(path);
      std::string text(("made for " + key).size(), ' ');
      in.read(text.data(), static_cast<std::streamsize>(text.size()));
      EXPECT_EQ(text, "made for " + key);
    }
    cache.shrink(std::uintmax_t{1} << 20U);
  });
  EXPECT_GE(made.load(), 3);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace etrace::testing
