// The hook that ends a long call, and the sink for warnings.
#include "etrace/host.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace etrace {
namespace {

struct Hook {
  explicit Hook(std::function<void()> f) { set_interrupt_hook(std::move(f)); }
  ~Hook() { set_interrupt_hook({}); }
};

TEST(Host, NobodyIsAskedWithoutAHook) { EXPECT_NO_THROW(check_interrupt()); }

// Every thread has a clock of its own: who asks often does not ask for the others.
TEST(Host, TheHookIsAskedSparselyOnEachThread) {
  int asked = 0;
  const Hook hook([&] { ++asked; });
  for (int round = 1; round <= 2; ++round) {
    std::thread([] {
      for (int i = 0; i < 1000; ++i) check_interrupt();
    }).join();
    EXPECT_GE(asked, round);
    EXPECT_LT(asked, 500 * round);
  }
}

TEST(Host, WhatTheHookThrowsEndsTheCall) {
  const Hook hook([] { throw std::runtime_error("stop"); });
  bool stopped = false;
  std::thread([&] {
    try {
      check_interrupt();
    } catch (const std::runtime_error& e) {
      stopped = std::string(e.what()) == "stop";
    }
  }).join();
  EXPECT_TRUE(stopped);
}

TEST(Host, WarningsGoToTheSink) {
  std::vector<std::string> got;
  set_warning_sink([&](const std::string& text) { got.push_back(text); });
  warn("careful");
  set_warning_sink({});
  EXPECT_EQ(got, std::vector<std::string>{"careful"});
  ::testing::internal::CaptureStderr();
  warn("careful");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "etrace: careful\n");
}

}  // namespace
}  // namespace etrace
