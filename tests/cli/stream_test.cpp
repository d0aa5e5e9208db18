// `etrace train --stream` as a process: files, pipes, Ctrl-C, lines that cannot be used, what stays.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "cli/train_fixture.h"

namespace etrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StreamVerb : public TrainFixture {
 protected:
  static std::string rows(int from, int to) {
    std::string text;
    for (int i = from; i < to; ++i)
      text += std::to_string(i * 7919 % 101) + "," + std::to_string(i * 31 % 17) + "," +
              (i * 7919 % 101 > 50 ? "up" : "down") + "\n";
    return text;
  }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }
  Words stream(const std::string& path, const Words& more = {}) const {
    return Words{"train",  path,         "--stream", "--hidden",  "4",     "--backend", "interpreter",
                 "--runs", file("runs"), "--set",    "window=50", "--set", "look=20"} +
           more;
  }
  nlohmann::json run_json(const std::string& name) const {
    return nlohmann::json::parse(contents(file("runs/" + name + "/run.json")));
  }
  std::string checkpoint(const std::string& name) const {
    return contents(file("runs/" + name + "/checkpoints/last.safetensors"));
  }
};

TEST_F(StreamVerb, AFileToItsEnd) {
  const auto r = run_etrace(stream(put("s.csv", "a,b,kind\n" + rows(0, 300)), {"--name", "r"}));
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("which kind? down, up"), HasSubstr("300 lines: accuracy"),
                            HasSubstr("against no change")));
  const auto json = run_json("r");
  EXPECT_EQ(json["status"], "done");
  EXPECT_EQ(json["reason"], "end");
  EXPECT_EQ(json["stream"]["lines"], 300);
  EXPECT_GT(json["final"]["accuracy"].get<double>(), 0.5);
  const auto listed = run_etrace({"runs", "--runs", file("runs")});
  EXPECT_THAT(listed.text, AllOf(HasSubstr("stream"), HasSubstr("done")));
  for (const char* verb : {"eval", "predict"}) {
    const auto refused = run_etrace(Words{verb, file("runs/r")} +
                                    (std::string(verb) == "predict" ? Words{file("s.csv")} : Words{}));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.text, HasSubstr("is of a stream"));
  }
}

TEST_F(StreamVerb, CutOffAndGoingOn) {
  const std::string all = "a,b,kind\n" + rows(0, 200);
  ASSERT_EQ(run_etrace(stream(put("whole.csv", all), {"--name", "whole"})).code, 0);
  const std::size_t cut = all.size() - 5;
  const auto r = run_etrace(stream(put("s.csv", all.substr(0, cut)), {"--name", "r"}));
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("ends in the middle of line 201"), HasSubstr("199 lines: accuracy")));
  EXPECT_EQ(run_json("r")["reason"], "cut off");
  put("s.csv", all);  // the writer has gone on
  const auto rest = run_etrace({"train", file("runs/r"), "--resume"});
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_THAT(rest.text, AllOf(HasSubstr("going on behind line 200"), HasSubstr("200 lines: accuracy")));
  EXPECT_EQ(checkpoint("r"), checkpoint("whole"));
}

TEST_F(StreamVerb, LinesThatCannotBeUsed) {
  for (const auto& [line, said] : std::vector<std::pair<std::string, std::string>>{
           {"1,2\n", "line 101: 2 columns, expected 3"},
           {"1,nan,up\n", "line 101: 'nan' in column b is no number"},
           {"x,2,up\n", "line 101: 'x' in column a is no number"},
           {"1,2,sideways\n", "line 101: the class 'sideways' is none of down,up"}}) {
    const std::string name = "r" + std::to_string(said.size()) + line.substr(0, 1);
    put("s.csv", "a,b,kind\n" + rows(0, 99) + line + rows(99, 120));
    const auto r = run_etrace(stream(file("s.csv"), {"--name", name}));
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.text, AllOf(HasSubstr(said), HasSubstr("bad_lines=skip"),
                              HasSubstr("What was learned from 99 lines is kept")));
    EXPECT_EQ(run_json(name)["status"], "failed");
    const auto skipping = run_etrace({"train", file("runs/" + name), "--resume", "--set", "bad_lines=skip"});
    EXPECT_EQ(skipping.code, 0) << skipping.text;
    EXPECT_THAT(skipping.text,
                AllOf(HasSubstr(said), HasSubstr("120 lines: accuracy"), HasSubstr("1 lines left out")));
  }
}

// A pipe whose writer goes on for ever is ended by Ctrl-C, keeps its checkpoint and goes on with a new one.
TEST_F(StreamVerb, APipeAndCtrlC) {
  ASSERT_EQ(mkfifo(file("p").c_str(), 0600), 0);
  const int hold = ::open(file("p").c_str(), O_RDWR | O_CLOEXEC);
  const auto give = [&](const std::string& text) {
    ASSERT_EQ(::write(hold, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  // The log on standard output says when all have been learned from.
  Process p(
      stream(file("p"), {"--name", "r", "--set", "classes=up,down", "--json", "-", "--set", "window=10"}));
  give("a,b,kind\n" + rows(0, 50) + "17,");
  std::string line;
  while (p.read_line(line) && line.find("\"lines\":50,") == std::string::npos) {
  }
  p.kill(SIGINT);
  const auto r = p.wait();
  EXPECT_EQ(r.code, 130) << r.text;
  EXPECT_THAT(r.text, HasSubstr("50 lines: accuracy"));
  EXPECT_EQ(run_json("r")["status"], "stopped");
  Process again({"train", file("runs/r"), "--resume", "--updates", "60"});
  give("a,b,kind\n" + rows(50, 70));
  const auto rest = again.wait();
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_THAT(rest.text, HasSubstr("60 lines: accuracy"));
  ::close(hold);
}

TEST_F(StreamVerb, WhatIsRefused) {
  put("s.csv", "a,b,kind\n" + rows(0, 30));
  const auto said = [&](const Words& more) { return run_etrace(stream(file("s.csv"), more)).text; };
  EXPECT_THAT(said({"--batch", "8"}), HasSubstr("--batch has no meaning for a stream"));
  EXPECT_THAT(said({"--set", "lok=3"}), HasSubstr("did you mean look?"));
  EXPECT_THAT(said({"--set", "last_label=2"}), HasSubstr("expected 0 or 1"));
  EXPECT_THAT(said({"--set", "bad_lines=maybe"}), HasSubstr("expected stop or skip"));
  EXPECT_THAT(said({"--set", "label=knd"}), HasSubstr("did you mean kind?"));
  EXPECT_THAT(said({"--model", "gruu"}), HasSubstr("no built-in model 'gruu'"));
  EXPECT_THAT(run_etrace({"train", "--stream"}).text, HasSubstr("which stream?"));
  EXPECT_THAT(run_etrace(stream(file("none.csv"))).text, HasSubstr("cannot open"));
  const auto one = run_etrace(stream(put("one.csv", "1,a\n2,a\n")));
  EXPECT_THAT(one.text, HasSubstr("one class among the lines that were looked at (a)"));
}

}  // namespace
}  // namespace etrace::testing
