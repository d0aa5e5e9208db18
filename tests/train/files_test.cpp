// Files of runs: TensorBoard's events, configurations, folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "etrace/error.h"
#include "support/errors.h"
#include "train/config.h"
#include "train/run_folder.h"
#include "train/tensorboard.h"

namespace etrace::train {
namespace {

namespace fs = std::filesystem;
using etrace::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

// Made with TensorBoard's own writer.
TEST(EventFile, RecordsAreThoseOfTensorBoard) {
  EXPECT_EQ(hex(version_record(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(hex(scalar_record(1.5, 7, {{"loss", 0.25}})),
            "1a00000000000000129bd82d09000000000000f83f10072a0d0a0b0a046c6f7373150000803ec9d07b8d");
}

class RunFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string written(const std::string& text) const {
    std::ofstream(path("c.toml")) << text;
    return path("c.toml");
  }
  std::string folder_ = ::testing::TempDir() + "/etrace_run_files_" + std::to_string(getpid());
};

TEST_F(RunFiles, AConfigurationComesBackAsItWas) {
  const ConfigItems items{{"backend", "auto"},
                          {"batch", "32"},
                          {"lr", "0.003"},
                          {"resume", "true"},
                          {"seed", "0"},
                          {"task", "copying"},
                          {"rule-option", "decay_or_rank=0.95"},
                          {"set", "file=a \"b\"\\n=c"},
                          {"set", "lag=20"}};
  ConfigItems back = read_config(written(config_text(items))), sorted = items;
  std::sort(sorted.begin(), sorted.end());
  std::sort(back.begin(), back.end());
  EXPECT_EQ(back, sorted);
}

TEST_F(RunFiles, WrongConfigurationsAreNamedWithTheirLine) {
  const auto message = [&](const std::string& text) {
    return message_of<ValueError>([&] { read_config(written(text)); });
  };
  EXPECT_THAT(message("task = \"copying\"\nlr = = 3\n"), AllOf(HasSubstr("c.toml"), HasSubstr("line 2")));
  EXPECT_THAT(message("batch = 3\nhidden = [1, 2]\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("hidden is neither")));
  EXPECT_THAT(message("[model]\nname = \"gru\"\n"),
              HasSubstr("there is no table [model]; expected one of set, rule-option"));
  EXPECT_THAT(message("set = 3\n"), HasSubstr("set is a table"));
  for (const char* key : {"save", "json", "checkpoint"})  // it would write where a stranger says
    EXPECT_THAT(message(fmt::format("{} = \"victim\"\n", key)),
                AllOf(HasSubstr("line 1"), HasSubstr("names no file to write"), HasSubstr(key)));
  EXPECT_THAT(message_of<IoError>([&] { read_config(path("none.toml")); }), HasSubstr("none.toml"));
}

TEST_F(RunFiles, NamesAreNumberedOrRefused) {
  const RunFolder first = RunFolder::create(path("runs"), "a", true),
                  second = RunFolder::create(path("runs"), "a", true);
  EXPECT_EQ(first.name(), "a");
  EXPECT_EQ(second.name(), "a-2");
  EXPECT_THAT(message_of<ValueError>([&] { RunFolder::create(path("runs"), "a", false); }),
              HasSubstr("add --resume"));
  for (const char* name : {"", ".", "..", "a/b"})
    EXPECT_THAT(message_of<ValueError>([&] { RunFolder::create(path("runs"), name, false); }),
                HasSubstr("cannot name a run"));
  std::ofstream(path("file")) << "x";
  EXPECT_THAT(message_of<IoError>([&] { RunFolder::create(path("file"), "a", false); }),
              HasSubstr("--runs none"));
}

TEST_F(RunFiles, AFolderIsUsedByOneProcess) {
  {
    const RunFolder run = RunFolder::create(path("runs"), "a", false);
    EXPECT_THAT(message_of<ValueError>([&] { RunFolder::open(run.path()); }), HasSubstr("has no run.json"));
    std::ofstream(run.file("run.json")) << "{}";
    EXPECT_TRUE(RunFolder::is_in_use(run.path()));
    EXPECT_THAT(message_of<ValueError>([&] { RunFolder::open(run.path()); }),
                HasSubstr("another process works in"));
  }
  EXPECT_FALSE(RunFolder::is_in_use(path("runs/a")));
  EXPECT_EQ(RunFolder::open(path("runs/a")).name(), "a");
}

TEST_F(RunFiles, RunsThatCannotBeReadAreNamed) {
  for (const char* name : {"a", "b", "c"}) fs::create_directories(path("runs/") + name);
  std::ofstream(path("runs/a/run.json")) << R"({"format": "etrace.run", "name": "a"})";
  std::ofstream(path("runs/b/run.json")) << "{";
  std::ofstream(path("runs/c/other")) << "{";
  std::vector<std::string> problems;
  const auto found = find_runs(path("runs"), problems);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].json->at("name"), "a");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("runs/b/run.json"));
  EXPECT_THAT(message_of<IoError>([&] { find_runs(path("nowhere"), problems); }),
              HasSubstr("--runs names another"));
}

}  // namespace
}  // namespace etrace::train
