// A connection to a server of this machine, as a browser makes it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace etrace::testing {

class BrowserSocket {
 public:
  explicit BrowserSocket(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
      throw std::runtime_error("no server at port " + std::to_string(port));
  }
  ~BrowserSocket() { ::close(socket_); }
  BrowserSocket(const BrowserSocket&) = delete;
  BrowserSocket& operator=(const BrowserSocket&) = delete;

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // `url`: "http://127.0.0.1:41873/5f0c…/", as it is printed, or with more behind.
  void get(const std::string& url, const std::string& more = "") const {
    const std::size_t host = url.find("//") + 2, path = url.find('/', host);
    send("GET " + url.substr(path) + " HTTP/1.1\r\nHost: " + url.substr(host, path - host) + "\r\n" + more +
         "\r\n");
  }
  // Everything from the last read() on up to the end of `text`, or up to the end of the connection.
  std::string read_to(std::string_view text) {
    std::size_t found;
    while ((found = text_.find(text)) == std::string::npos) {
      char bytes[4096];
      const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
      if (got <= 0) return std::exchange(text_, {});
      text_.append(bytes, static_cast<std::size_t>(got));
    }
    std::string out = text_.substr(0, found + text.size());
    text_.erase(0, out.size());
    return out;
  }
  std::string read_all() { return read_to(std::string_view("\0 never \0", 9)); }

 private:
  int socket_;
  std::string text_;
};

inline std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.find(':', 6) + 1)));
}

}  // namespace etrace::testing
