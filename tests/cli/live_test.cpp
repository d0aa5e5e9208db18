// `etrace train --live` as a process: its address, its end, Ctrl-C, and that no number depends on it.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "cli/train_fixture.h"
#include "support/browser_socket.h"

namespace etrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LiveRun : public TrainFixture {
 protected:
  Words run(const std::string& name, const std::string& updates, const Words& more = {}) const {
    return tiny(Words{"--updates", updates, "--runs", file("runs"), "--name", name, "--check-every", "5",
                      "--backend", "interpreter"} +
                more);
  }
  static std::string address(Process& p) {
    for (std::string line; p.read_line(line);)
      if (line.starts_with("live ")) return line.substr(5);
    throw std::runtime_error("no address was printed");
  }
  // Lines of the log without what a clock says.
  std::string numbers(const std::string& name) const {
    std::istringstream lines(contents(file("runs/" + name + "/log.jsonl")));
    std::string out;
    for (std::string line; std::getline(lines, line);) out += line.substr(0, line.find("\"seconds\"")) + "\n";
    return out;
  }
};

TEST_F(LiveRun, HasTheBitsOfARunThatNobodySees) {
  ASSERT_EQ(run_etrace(run("plain", "40")).code, 0);
  Process p(run("live", "40", {"--live"}));
  const std::string url = address(p);
  BrowserSocket listener(port_of(url));
  listener.get(url + "events");
  const std::string events = listener.read_all();
  EXPECT_THAT(events,
              AllOf(HasSubstr("event: all"), HasSubstr("event: news"),
                    HasSubstr("The run has ended. This page lies in " + file("runs/live/page.html"))));
  EXPECT_EQ(p.wait().code, 0);
  EXPECT_EQ(numbers("live"), numbers("plain"));
  for (const char* left : {"/best.safetensors", "/checkpoints/last.safetensors"})
    EXPECT_EQ(contents(file("runs/live") + left), contents(file("runs/plain") + left));
  EXPECT_THAT(contents(file("runs/live/page.html")), Not(HasSubstr("data-events=")));
  EXPECT_THROW(BrowserSocket again(port_of(url)), std::runtime_error);
}

TEST_F(LiveRun, CtrlCEndsItWithItsPage) {
  Process p(run("stopped", "100000000", {"--live"}));
  const std::string url = address(p);
  BrowserSocket hangs(port_of(url)), listener(port_of(url));
  hangs.get(url + "events");
  listener.get(url + "events");
  listener.read_to("event: news");
  p.kill(SIGINT);
  EXPECT_THAT(listener.read_all(), HasSubstr("stopped after"));
  EXPECT_EQ(p.wait().code, 130);
  EXPECT_THAT(contents(file("runs/stopped/page.html")), HasSubstr("stopped after"));
}

TEST_F(LiveRun, ATakenPortIsRefusedBeforeTheWork) {
  Process p(run("first", "100000000", {"--live"}));
  const std::string port = std::to_string(port_of(address(p)));
  const auto second = run_etrace(run("second", "10", {"--live=" + port}));
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.text, AllOf(HasSubstr("port " + port), HasSubstr("another program")));
  EXPECT_FALSE(fs::exists(file("runs/second")));
  p.kill(SIGINT);
  p.wait();
  const auto third = run_etrace(run("third", "10", {"--live=" + port}));
  EXPECT_EQ(third.code, 0) << third.text;
  EXPECT_THAT(third.text, HasSubstr("live http://127.0.0.1:" + port + "/"));
}

TEST_F(LiveRun, WhatIsNoPortIsRefused) {
  for (const char* value : {"--live=65536", "--live=-1", "--live=page"}) {
    const auto r = run_etrace(run("r", "10", {value}));
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.text, AllOf(HasSubstr("live is"), HasSubstr("65535"))) << r.text;
  }
  const auto compared = run_etrace(run("r", "10", {"--live", "--compare", "d_rtrl"}));
  EXPECT_EQ(compared.code, 2);
  EXPECT_THAT(compared.text, HasSubstr("--live is for one run"));
}

TEST_F(LiveRun, GoesOnWithTheCurvesOfBefore) {
  ASSERT_EQ(run_etrace(run("r", "20")).code, 0);
  Process p({"train", file("runs/r"), "--resume", "--updates=40", "--live", "--quiet"});
  const std::string url = address(p);
  BrowserSocket listener(port_of(url));
  listener.get(url + "events");
  listener.read_to("data: ");
  EXPECT_THAT(listener.read_to("\n\n"), AllOf(HasSubstr("[[1,"), HasSubstr(",[20,")));
  EXPECT_EQ(p.wait().code, 0);
}

TEST_F(LiveRun, AStreamIsShownToo) {
  std::string rows = "a,kind\n";
  for (int i = 0; i < 400; ++i)
    rows += std::to_string(i * 7919 % 101) + (i * 7919 % 101 > 50 ? ",up\n" : ",down\n");
  std::ofstream(file("s.csv"), std::ios::binary) << rows;
  Process p({"train", file("s.csv"), "--stream", "--hidden", "4", "--backend", "interpreter", "--runs",
             file("runs"), "--name", "s", "--set", "window=50", "--live"});
  const std::string url = address(p);
  BrowserSocket listener(port_of(url));
  listener.get(url + "events");
  EXPECT_THAT(listener.read_all(),
              AllOf(HasSubstr("event: all"), HasSubstr("This page lies in " + file("runs/s/page.html"))));
  EXPECT_EQ(p.wait().code, 0);
  EXPECT_THAT(contents(file("runs/s/page.html")),
              AllOf(HasSubstr("Kappa against no change"), HasSubstr("last 50 lines")));
}

// A pipe that pauses behind a line that the log has, or any other: the last line is shown.
TEST_F(LiveRun, ASilentStreamShowsItsLastLine) {
  for (const int lines : {100, 130}) {
    const std::string pipe = file("pipe" + std::to_string(lines));
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    Process p({"train", pipe, "--stream", "--hidden", "4", "--backend", "interpreter", "--runs", file("runs"),
               "--set", "window=50", "--set", "classes=up,down", "--live"});
    std::ofstream writer(pipe);
    writer << "a,kind\n" << std::flush;
    for (int i = 0; i < lines; ++i) writer << i % 7 << (i % 7 > 3 ? ",up\n" : ",down\n");
    writer.flush();
    const std::string url = address(p);
    BrowserSocket listener(port_of(url));
    listener.get(url + "events");
    EXPECT_THAT(listener.read_to("[\"lines\",\"" + std::to_string(lines) + "\"]"), HasSubstr("kappa"));
    EXPECT_THAT(listener.read_to("\n\n"), HasSubstr("\n"));
    writer.close();
    EXPECT_THAT(listener.read_all(), HasSubstr("This page lies in"));
    EXPECT_EQ(p.wait().code, 0);
  }
}

}  // namespace
}  // namespace etrace::testing
