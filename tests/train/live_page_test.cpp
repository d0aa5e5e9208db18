// The page of a run while it goes: what is sent, and that telling from the thread that works is all it needs.
#include "train/live_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "support/browser_socket.h"

namespace etrace::train {
namespace {

using etrace::testing::BrowserSocket;
using etrace::testing::port_of;
using ::testing::HasSubstr;
using ::testing::Not;

RunPage page_with(std::vector<RunPage::Point> points) {
  return {.title = "a <run>",
          .lead = "begins",
          .plots = {{.title = "Loss", .curves = {{.name = "training", .points = std::move(points)}}}}};
}

nlohmann::json next_event(BrowserSocket& s) {
  s.read_to("data: ");
  return nlohmann::json::parse(s.read_to("\n\n"));
}

TEST(LivePage, HistoryFirstThenNewPointsThenTheWholePage) {
  LivePage live(0);
  live.begin(page_with({{.x = 1, .y = 0.5, .seconds = 0.25}}));
  const std::string url = live.address();
  BrowserSocket page(port_of(url)), listener(port_of(url));
  page.get(url);
  const std::string html = page.read_all();
  EXPECT_THAT(html, HasSubstr("<h1>a &lt;run&gt;</h1>"));
  EXPECT_THAT(html, HasSubstr("data-events=\"events\""));
  listener.get(url + "events");
  EXPECT_EQ(next_event(listener)["plots"], nlohmann::json::parse("[[[[1,0.5,0.25]]]]"));
  live.add(0, 0, {.x = 2, .y = 0.25, .seconds = 0.5});
  live.add(0, 0, {.x = 3, .y = std::numeric_limits<double>::quiet_NaN()});  // has no place on a page
  live.mark(2.5);
  EXPECT_TRUE(live.wants_state());
  live.state("goes on", {{"updates", "3"}});
  const auto news = next_event(listener);
  EXPECT_EQ(news["plots"], nlohmann::json::parse("[[[[2,0.25,0.5]]]]"));
  EXPECT_EQ(news["marks"], nlohmann::json::parse("[[2.5]]"));
  EXPECT_EQ(news["lead"], "goes on");
  EXPECT_EQ(news["tiles"], nlohmann::json::parse(R"([["updates","3"]])"));
  live.end(RunPage{.title = "a <run>", .lead = "solved", .note = "It lies in runs/a"});
  const std::string last = next_event(listener)["page"];
  EXPECT_THAT(last, HasSubstr("solved"));
  EXPECT_THAT(last, HasSubstr("It lies in runs/a"));
  EXPECT_THAT(last, Not(HasSubstr("data-events=")));
  EXPECT_THAT(last, HasSubstr("[1,0.5,0.25],[2,0.25,0.5]"));  // without curves of its own
}

TEST(LivePage, ARunWithoutAResultKeepsItsPage) {
  LivePage live(0);
  live.begin(page_with({{.x = 1, .y = 0.5}}));
  BrowserSocket listener(port_of(live.address()));
  listener.get(live.address() + "events");
  next_event(listener);
  live.end("The run has failed: no disk");
  EXPECT_THAT(next_event(listener)["page"].get<std::string>(), HasSubstr("The run has failed: no disk"));
}

TEST(LivePage, LongRunsStaySmall) {
  LivePage live(0);
  live.begin(page_with({}));
  constexpr int kPoints = 100'000;
  for (int i = 1; i <= kPoints; ++i) live.add(0, 0, {.x = static_cast<double>(i), .y = 1.0});
  live.state("goes on", {});
  BrowserSocket listener(port_of(live.address()));
  listener.get(live.address() + "events");
  std::vector<nlohmann::json> points;
  while (points.empty()) {
    const nlohmann::json event = next_event(listener);
    for (const auto& p : event["plots"][0][0]) points.push_back(p);
  }
  EXPECT_LE(points.size(), 2000U);
  std::int64_t counted = 0;
  for (const auto& p : points) counted += p.size() > 3 ? p[3].get<std::int64_t>() : 1;
  EXPECT_EQ(counted, kPoints);
  EXPECT_EQ(points.back()[0], kPoints);
  EXPECT_EQ(points.back()[1], 1.0);
}

}  // namespace
}  // namespace etrace::train
