// The server of live pages, through real sockets: who is answered, what listeners get, who is dropped.
#include "base/page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "etrace/error.h"
#include "support/browser_socket.h"

namespace etrace {
namespace {

using etrace::testing::BrowserSocket;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Numbers that were told, with commas.
class Numbers : public PageServer::Source {
 public:
  void tell(const std::string& number) {
    const std::lock_guard lock(guard_);
    new_ += "," + number;
  }
  std::string page() override { return "<p>the page</p>"; }
  std::string everything() override {
    const std::lock_guard lock(guard_);
    return "so far" + told_;
  }
  std::string news() override {
    const std::lock_guard lock(guard_);
    told_ += new_;
    return std::exchange(new_, {});
  }

 private:
  std::mutex guard_;
  std::string told_, new_;
};

struct PageServerTest : ::testing::Test {
  Numbers numbers;
  std::optional<PageServer> server{std::in_place, numbers, std::uint16_t{0}};

  std::string url(const std::string& more = "") const { return server->address() + more; }
  std::string answer(const std::string& request) const {
    BrowserSocket s(server->port());
    s.send(request);
    return s.read_all();
  }
  std::string path() const { return url().substr(url().find('/', 8)); }
};

TEST_F(PageServerTest, ThePageIsAtItsAddress) {
  BrowserSocket s(server->port());
  s.get(url());
  EXPECT_THAT(s.read_all(), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Type: text/html"),
                                  HasSubstr("Content-Length: 15\r\n"), EndsWith("\r\n\r\n<p>the page</p>")));
  EXPECT_THAT(url(), StartsWith("http://127.0.0.1:" + std::to_string(server->port()) + "/"));
}

TEST_F(PageServerTest, OthersAreRefused) {
  const std::string host = "Host: localhost\r\n\r\n";
  EXPECT_THAT(answer("GET " + path() + " HTTP/1.1\r\n" + host), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer("GET / HTTP/1.1\r\n" + host), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer("GET " + path() + " HTTP/1.1\r\nHost: attacker.example\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(answer("GET " + path() + " HTTP/1.1\r\nHost: localhost.attacker.example:80\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(answer("GET " + path() + " HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 403"));
  for (const char* method : {"POST", "HEAD", "OPTIONS", "DELETE"})
    EXPECT_THAT(answer(method + (" " + path()) + " HTTP/1.1\r\n" + host),
                AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET")));
  for (const char* broken :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / SPDY/9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nnothing\r\n\r\n"})
    EXPECT_THAT(answer(broken), StartsWith("HTTP/1.1 400")) << broken;
  EXPECT_THAT(answer("GET /" + std::string(100000, 'x')), StartsWith("HTTP/1.1 431"));
}

TEST_F(PageServerTest, TheHostIsComparedWhole) {
  for (const char* host : {"127.0.0.1", "localhost:8080", "LOCALHOST"})
    EXPECT_THAT(answer("GET " + path() + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"),
                StartsWith("HTTP/1.1 200"))
        << host;
  for (const char* host :
       {"127.0.0.1:80.attacker.example", "localhost:", "localhost:x", "127.0.0.1:1234567", "localhost:80:80",
        "127.0.0.1 "
        "x"})
    EXPECT_THAT(answer("GET " + path() + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"),
                StartsWith("HTTP/1.1 403"))
        << host;
}

// Connections that ask nothing took all places for ten seconds.
TEST_F(PageServerTest, WhoAsksNothingHoldsNoPlace) {
  std::vector<std::unique_ptr<BrowserSocket>> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(std::make_unique<BrowserSocket>(server->port()));
  BrowserSocket s(server->port());
  s.get(url());
  EXPECT_THAT(s.read_all(), StartsWith("HTTP/1.1 200"));
}

TEST_F(PageServerTest, ARequestMayComeInPieces) {
  BrowserSocket s(server->port());
  for (const char c : "GET " + path() + " HTTP/1.1\r\nhost: LOCALHOST:1\r\n\r\n") s.send(std::string(1, c));
  EXPECT_THAT(s.read_all(), StartsWith("HTTP/1.1 200"));
}

TEST_F(PageServerTest, ListenersGetAllThatWasAndThenWhatIsNew) {
  BrowserSocket first(server->port());
  first.get(url("events"));
  EXPECT_THAT(first.read_to("\n\n"), HasSubstr("Content-Type: text/event-stream"));
  EXPECT_EQ(first.read_to("\n\n"), "event: all\nid: 0\ndata: so far\n\n");
  numbers.tell("1");
  EXPECT_EQ(first.read_to("\n\n"), "event: news\nid: 1\ndata: ,1\n\n");
  BrowserSocket second(server->port());
  second.get(url("events"));
  second.read_to("\n\n");
  EXPECT_EQ(second.read_to("\n\n"), "event: all\nid: 1\ndata: so far,1\n\n");
  numbers.tell("2");
  for (BrowserSocket* s : {&first, &second})
    EXPECT_EQ(s->read_to("\n\n"), "event: news\nid: 2\ndata: ,2\n\n");
}

TEST_F(PageServerTest, WhoComesBackGetsWhatItMissed) {
  BrowserSocket listener(server->port());
  listener.get(url("events"));
  listener.read_to("so far\n\n");
  for (const char* number : {"1", "2", "3"}) {
    numbers.tell(number);
    listener.read_to("\n\n");
  }
  const auto after = [&](const std::string& id) {
    BrowserSocket s(server->port());
    s.get(url("events"), "Last-Event-ID: " + id + "\r\n");
    s.read_to("retry: 1000\n\n");
    return s.read_to("\n\n");
  };
  EXPECT_EQ(after("1"), "event: news\nid: 2\ndata: ,2\n\n");
  EXPECT_EQ(after("2"), "event: news\nid: 3\ndata: ,3\n\n");
  // Numbers of another process, and what is none.
  for (const char* id : {"4", "18446744073709551615", "-1", "x", ""})
    EXPECT_EQ(after(id), "event: all\nid: 3\ndata: so far,1,2,3\n\n") << id;
}

// Events beyond what is kept: everything is sent in place of what is gone.
TEST_F(PageServerTest, WhoWasAwayForTooLongGetsEverything) {
  BrowserSocket listener(server->port());
  listener.get(url("events"));
  listener.read_to("so far\n\n");
  const std::string large(700'000, 'x');
  for (const char* number : {"1", "2", "3"}) {
    numbers.tell(number + large);
    listener.read_to("\n\n");
  }
  BrowserSocket s(server->port());
  s.get(url("events"), "Last-Event-ID: 0\r\n");
  s.read_to("retry: 1000\n\n");
  EXPECT_THAT(s.read_to("\n\n"), StartsWith("event: all\nid: 3\ndata: so far,1xxx"));
}

TEST_F(PageServerTest, TheLastNewsGoOutAtTheEnd) {
  std::vector<std::unique_ptr<BrowserSocket>> listeners;
  for (int i = 0; i < 5; ++i) {
    listeners.push_back(std::make_unique<BrowserSocket>(server->port()));
    listeners.back()->get(url("events"));
    listeners.back()->read_to("so far\n\n");
  }
  numbers.tell("the end");
  server.reset();
  for (const auto& s : listeners) EXPECT_THAT(s->read_all(), HasSubstr("data: ,the end\n\n"));
}

// A browser that hangs reads nothing, one that is closed goes at any moment: the others get all.
TEST_F(PageServerTest, WhoStopsReadingCostsNothing) {
  BrowserSocket hangs(server->port());
  hangs.get(url("events"));
  BrowserSocket mute(server->port());
  BrowserSocket reads(server->port());
  reads.get(url("events"));
  reads.read_to("so far\n\n");
  const std::string large(3'000'000, 'x');
  for (int i = 0; i < 6; ++i) {
    BrowserSocket gone(server->port());
    gone.get(url("events"));
    numbers.tell(large);
    EXPECT_THAT(reads.read_to("\n\n"), HasSubstr("data: ,xxx"));
  }
  // More than the system itself holds was waiting; the connection was closed before its end.
  EXPECT_LT(hangs.read_all().size(), 6 * large.size());
}

TEST_F(PageServerTest, ManyLookAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        BrowserSocket s(server->port());
        s.get(url());
        EXPECT_THAT(s.read_all(), StartsWith("HTTP/1.1 200"));
      }
    });
  for (int i = 0; i < 100; ++i) numbers.tell(std::to_string(i));
  for (std::thread& t : threads) t.join();
}

// 32 may listen; the 33rd is told so, sees the page, and the others go on.
TEST_F(PageServerTest, PlacesAreLimited) {
  std::vector<std::unique_ptr<BrowserSocket>> listeners;
  for (int i = 0; i < 32; ++i) {
    listeners.push_back(std::make_unique<BrowserSocket>(server->port()));
    listeners.back()->get(url("events"));
    listeners.back()->read_to("so far\n\n");
  }
  BrowserSocket late(server->port());
  late.get(url("events"));
  EXPECT_THAT(late.read_all(), StartsWith("HTTP/1.1 503"));
  BrowserSocket page(server->port());
  page.get(url());
  EXPECT_THAT(page.read_all(), StartsWith("HTTP/1.1 200"));
  numbers.tell("1");
  EXPECT_THAT(listeners.front()->read_to("\n\n"), HasSubstr(",1"));
}

TEST_F(PageServerTest, APortInUseIsAnErrorThatNamesIt) {
  try {
    PageServer second(numbers, server->port());
    FAIL();
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("port " + std::to_string(server->port())), HasSubstr("another program")));
  }
  const std::uint16_t port = server->port();
  server.reset();
  const PageServer again(numbers, port);
  EXPECT_EQ(again.port(), port);
}

TEST_F(PageServerTest, NooneFromOutsideIsHeard) {
  // Another address of the loopback's network is none that it listens on.
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(server->port());
  at.sin_addr.s_addr = htonl(0x7f000002);  // 127.0.0.2
  EXPECT_NE(connect(s, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ::close(s);
  EXPECT_THAT(server->address(), Not(HasSubstr("0.0.0.0")));
}

}  // namespace
}  // namespace etrace
