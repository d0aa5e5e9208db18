// The page of a run while it goes, for browsers of this machine (`--live`). What a run tells costs it a copy;
// the thread of the server makes the page, and sends what is new four times a second.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/page_server.h"
#include "report/run_page.h"

#pragma GCC visibility push(default)
namespace etrace::train {

class LivePage : private PageServer::Source {
 public:
  // Listens at once, so that a port that cannot be had is known before the work. IoError.
  explicit LivePage(std::uint16_t port);
  ~LivePage() override;

  const std::string& address() const { return server_->address(); }

  void begin(RunPage);  // what it shows, with the curves until now; before the address is told
  void add(std::size_t plot, std::size_t curve, const RunPage::Point&);
  void mark(double x);                               // on every plot
  bool wants_state() const { return wants_state_; }  // the last one was sent
  void state(std::string lead, std::vector<std::pair<std::string, std::string>> tiles);
  // The whole page, in place of what was shown; without curves of its own it keeps these. No-one is served
  // any longer.
  void end(RunPage);
  void end(const std::string& lead);  // the same page as it stands, of a run that came to no result

 private:
  std::string page() override;
  std::string news() override;
  std::string everything() override;

  std::mutex guard_;  // of the next three
  RunPage shown_;     // what was sent
  RunPage news_;      // what came since
  std::string last_;  // the page at the end
  std::atomic<bool> wants_state_ = true;
  std::unique_ptr<PageServer> server_;  // none: the run has ended
};

}  // namespace etrace::train
#pragma GCC visibility pop
