// Tests of `etrace train`: a folder of its own for each, and a run that takes a millisecond per update.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/process.h"

namespace etrace::testing {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

inline std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class TrainFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static Words tiny(const Words& more = {}) {
    return Words{"train",   "copying",    "--set",   "lag=1", "--set",    "symbols=1",
                 "--set",   "alphabet=2", "--model", "gru",   "--hidden", "4",
                 "--batch", "2",          "--lr",    "0.01",  "--memory", "0"} +
           more;
  }

 private:
  fs::path folder_ =
      fs::path(::testing::TempDir()) / (std::string("etrace_train_") + std::to_string(getpid()) + "_" +
                                        ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

}  // namespace etrace::testing
