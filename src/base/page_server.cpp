#include "base/page_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "etrace/error.h"

namespace etrace {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kNews = milliseconds(250);      // between two looks for news
constexpr auto kAsk = milliseconds(10'000);    // for a request to come and its answer to be read
constexpr auto kLast = milliseconds(500);      // for the last news to be read
constexpr std::size_t kMostClients = 32;       // that listen at once
constexpr std::size_t kMostWaiting = 128;      // that have asked nothing yet, or read their answer
constexpr std::size_t kMostRequest = 8192;     // bytes of a request
constexpr std::size_t kMostUnread = 8u << 20;  // bytes that wait for one client
constexpr std::size_t kMostEvents = 1u << 20;  // bytes of events that are kept for who comes back

class Handle {
 public:
  explicit Handle(int number = -1) : number_(number) {}
  Handle(Handle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Handle() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

// Signals are for the threads that work: one that ends a read of theirs must not land in that of the server.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

[[noreturn]] void cannot_listen(std::uint16_t port, int error) {
  const std::string which = port == 0 ? "a free port" : fmt::format("port {}", port);
  const char* what = error == EADDRINUSE
                         ? "another program has it; choose another one, or 0 for any that is free"
                     : error == EACCES ? "only root may have it; choose one from 1024 on, or 0 for any"
                                       : std::strerror(error);
  throw IoError("live", fmt::format("{} of 127.0.0.1 cannot be had: {}", which, what));
}

Handle listening(std::uint16_t wanted, std::uint16_t& port) {
  Handle out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(wanted);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (out.get() < 0 || setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(out.get(), address, size) != 0 || listen(out.get(), 16) != 0 ||
      getsockname(out.get(), address, &size) != 0)
    cannot_listen(wanted, errno);
  port = ntohs(at.sin_port);
  return out;
}

std::string random_word() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw IoError("live", "the system gives no random bytes for the address of the page");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The first lines of an HTTP request, which end with an empty one.
struct Request {
  std::string_view method, path;
  std::optional<std::string_view> host, last_event;
  bool broken = false;

  explicit Request(std::string_view text) {
    const std::string_view first = next_line(text);
    const std::size_t space = first.find(' '), second = first.find(' ', space + 1);
    broken = space == std::string_view::npos || second == std::string_view::npos ||
             !first.substr(second + 1).starts_with("HTTP/1.");
    if (broken) return;
    method = first.substr(0, space);
    path = first.substr(space + 1, second - space - 1);
    path = path.substr(0, path.find('?'));
    for (std::string_view line = next_line(text); !line.empty(); line = next_line(text)) {
      const std::size_t colon = line.find(':');
      broken = broken || colon == std::string_view::npos;
      if (colon == std::string_view::npos) return;
      const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
      if (same_letters(name, "Host")) {
        broken = broken || host.has_value();
        host = value;
      }
      if (same_letters(name, "Last-Event-ID")) last_event = value;
    }
  }

  // A page of another site may have a name of its own lead here; its requests then bear that name.
  bool is_for_this_machine() const {
    const std::string_view all = host.value_or(std::string_view()), name = all.substr(0, all.find(':'));
    const std::string_view port = all.substr(name.size());  // of a tunnel it is another one than ours
    const bool is_port = port.empty() || (port.size() > 1 && port.size() <= 6 &&
                                          port.find_first_not_of("0123456789", 1) == std::string_view::npos);
    return is_port && (name == "127.0.0.1" || same_letters(name, "localhost"));
  }
  std::optional<std::uint64_t> number_of_last_event() const {
    std::uint64_t out = 0;
    if (!last_event) return std::nullopt;
    const char *begin = last_event->data(), *end = begin + last_event->size();
    const auto [stop, error] = std::from_chars(begin, end, out);
    return error == std::errc() && stop == end ? std::optional(out) : std::nullopt;
  }

 private:
  static std::string_view next_line(std::string_view& text) {
    const std::size_t end = std::min(text.find("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 2, text.size()));
    return line;
  }
};

constexpr std::string_view kHead =
    "Cache-Control: no-store\r\nConnection: close\r\nX-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'\r\n";

std::string answer(std::string_view status, std::string_view type, std::string_view body,
                   std::string_view more = "") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n{}{}\r\n{}",
                     status, type, body.size(), more, kHead, body);
}
std::string refusal(std::string_view status, std::string_view why, std::string_view more = "") {
  return answer(status, "text/plain", fmt::format("{}\n", why), more);
}

std::string event_text(std::string_view name, std::uint64_t id, std::string_view data) {
  return fmt::format("event: {}\nid: {}\ndata: {}\n\n", name, id, data);
}

}  // namespace

PageServer::Source::~Source() = default;

// The thread's own; the others read what never changes and set `stop_`.
class PageServer::Loop {
 public:
  Loop(Source& source, std::uint16_t wanted) : source_(source), listener_(listening(wanted, port_)) {
    word_ = random_word();
    address_ = fmt::format("http://127.0.0.1:{}/{}/", port_, word_);
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw IoError("live", "the system gives no pipe");
    wake_ = Handle(ends[0]);
    wakes_ = Handle(ends[1]);
    const WithoutSignals inherited;
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() {
    stop_ = true;
    [[maybe_unused]] const ssize_t sent = write(wakes_.get(), "x", 1);
    thread_.join();
  }
  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }

 private:
  struct Client {
    Handle socket;
    Clock::time_point came = Clock::now();
    std::string in, out;
    bool listens = false;  // to events; others are gone when they have their answer
    bool answered = false, gone = false;
  };

  void run() {
    auto next = Clock::now();
    while (!stop_) {
      serve(next);
      if (Clock::now() < next) continue;
      next = Clock::now() + kNews;
      tell_news();
    }
    tell_news();
    const auto end = Clock::now() + kLast;
    listener_ = Handle();
    while (Clock::now() < end &&
           std::ranges::any_of(clients_, [](const Client& c) { return !c.out.empty(); }))
      serve(end);
  }

  // Waits until then at most for someone to come, ask or read on.
  void serve(Clock::time_point until) {
    std::vector<pollfd> watched{{wake_.get(), static_cast<short>(stop_ ? 0 : POLLIN), 0},
                                {listener_.get(), POLLIN, 0}};
    for (const Client& c : clients_)
      watched.push_back({c.socket.get(), static_cast<short>(c.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count() + 1;
    if (poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(left, 0))) < 0) return;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const short what = watched[i + 2].revents;
      if ((what & (POLLIN | POLLERR | POLLHUP)) != 0) read_from(clients_[i]);
      if ((what & POLLOUT) != 0) write_to(clients_[i]);
      if (!clients_[i].listens && Clock::now() - clients_[i].came > kAsk) clients_[i].gone = true;
    }
    std::erase_if(clients_, [](const Client& c) { return c.gone; });
    if (watched[1].revents != 0) let_in();
  }

  void let_in() {
    for (;;) {
      Handle socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() < 0) return;
      // Who only waits holds no place: of those the first goes. Listeners know the address.
      const auto waits = [](const Client& c) { return !c.listens; };
      if (static_cast<std::size_t>(std::ranges::count_if(clients_, waits)) >= kMostWaiting)
        clients_.erase(std::ranges::find_if(clients_, waits));
      clients_.push_back({.socket = std::move(socket)});
      read_from(clients_.back());  // what it asks is often here already
      if (clients_.back().gone) clients_.pop_back();
    }
  }

  void read_from(Client& c) {
    std::array<char, 4096> bytes;
    const ssize_t got = recv(c.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      c.gone = true;
      return;
    }
    if (c.answered) return;  // there is one request of each
    c.in.append(bytes.data(), static_cast<std::size_t>(got));
    if (c.in.find("\r\n\r\n") != std::string::npos && c.in.size() <= kMostRequest)
      put(c, answer_to(Request(c.in), c));
    else if (c.in.size() > kMostRequest)
      put(c, refusal("431 Request Header Fields Too Large", "This request is too long."));
  }

  std::string answer_to(const Request& r, Client& c) {
    if (r.broken) return refusal("400 Bad Request", "This is no request of HTTP/1.1.");
    if (!r.is_for_this_machine())
      return refusal("403 Forbidden", "The page is at 127.0.0.1 and localhost, under no other name.");
    if (r.method != "GET")
      return refusal("405 Method Not Allowed", "The page can be read only.", "Allow: GET\r\n");
    if (r.path == fmt::format("/{}/", word_)) return answer("200 OK", "text/html", source_.page());
    if (r.path != fmt::format("/{}/events", word_))
      return refusal("404 Not Found", "The page is at the address that the run has printed.");
    if (static_cast<std::size_t>(std::ranges::count_if(clients_, &Client::listens)) >= kMostClients)
      return refusal("503 Service Unavailable", "Too many look at this page.");
    c.listens = true;
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{}\r\nretry: 1000\n\n{}", kHead,
                       missed(r.number_of_last_event()));
  }

  // What came since that event, if it is all still here; else everything.
  std::string missed(std::optional<std::uint64_t> since) {
    const std::uint64_t oldest = last_ - events_.size();  // what came before the first one that is kept
    if (!since || *since < oldest || *since > last_) return event_text("all", last_, source_.everything());
    std::string out;
    for (auto i = static_cast<std::size_t>(*since - oldest); i < events_.size(); ++i) out += events_[i];
    return out;
  }

  void tell_news() {
    const std::string data = source_.news();
    if (data.empty()) return;
    events_.push_back(event_text("news", ++last_, data));
    kept_ += events_.back().size();
    for (Client& c : clients_)
      if (c.listens) put(c, events_.back());
    while (kept_ > kMostEvents) {
      kept_ -= events_.front().size();
      events_.pop_front();
    }
    std::erase_if(clients_, [](const Client& c) { return c.gone; });
  }

  void put(Client& c, std::string_view text) {
    c.answered = true;
    c.out += text;
    write_to(c);
    if (c.out.size() > kMostUnread) c.gone = true;
  }

  void write_to(Client& c) {
    std::size_t done = 0;
    while (done < c.out.size()) {
      const ssize_t sent = send(c.socket.get(), c.out.data() + done, c.out.size() - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN) c.gone = true;
      if (sent < 0) break;
      done += static_cast<std::size_t>(sent);
    }
    c.out.erase(0, done);
    if (!c.out.empty() || c.listens || c.gone) return;
    shutdown(c.socket.get(), SHUT_WR);  // who has its answer goes; what it still sends is read until then
  }

  Source& source_;
  std::uint16_t port_ = 0;
  Handle listener_, wake_, wakes_;
  std::string word_, address_;
  std::vector<Client> clients_;
  std::deque<std::string> events_;  // the last ones
  std::size_t kept_ = 0;            // their bytes
  std::uint64_t last_ = 0;          // the number of the last one
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

PageServer::PageServer(Source& source, std::uint16_t port) : loop_(std::make_unique<Loop>(source, port)) {}
PageServer::~PageServer() = default;
const std::string& PageServer::address() const { return loop_->address(); }
std::uint16_t PageServer::port() const { return loop_->port(); }

}  // namespace etrace
