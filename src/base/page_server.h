// A page for the browsers of this machine, and news of it while they look (server-sent events). It listens on
// the loopback alone, and its address holds a random word that other users cannot guess. A thread of its own
// does all of it: who makes the news never waits, however many look, and whoever stops reading is dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#pragma GCC visibility push(default)
namespace etrace {

class PageServer {
 public:
  // What is shown. The thread of the server asks, and no other; events are texts of one line.
  class Source {
   public:
    virtual ~Source();
    virtual std::string page() = 0;        // HTML, as of now; its events are at the relative address "events"
    virtual std::string news() = 0;        // what came since this was asked the last time; empty: nothing
    virtual std::string everything() = 0;  // all of it: for who comes, or was away for too long
  };

  // 0 takes a port that is free. IoError names the port and why it cannot be had. The source must live on.
  PageServer(Source&, std::uint16_t port);
  ~PageServer();  // what is new goes out to those who read, for half a second at most; then all is closed
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  const std::string& address() const;  // "http://127.0.0.1:41873/5f0c…/"
  std::uint16_t port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace etrace
#pragma GCC visibility pop
