#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"

namespace etrace {

namespace {

// The bytes of the character at the front; 0: it is none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF)
    return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
  if (first >= 0xF0 && first <= 0xF4)
    return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3)
               ? 4
               : 0;
  return 0;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = character(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string shown_text(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= most) return out + "…";
    const std::size_t size = std::max<std::size_t>(character(text), 1);
    const bool plain = character(text) > 0 && !is_control(text.front());
    if (plain)
      out += text.substr(0, size);
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text.front())));
    text.remove_prefix(plain ? size : 1);
  }
  return out;
}

void require_name(const char* stage, std::string_view where, std::string_view what, std::string_view name) {
  if (!is_utf8(name))
    throw ValueError(stage, fmt::format("{}: the {} '{}' is no UTF-8 text", where, what, shown_text(name)));
  if (name.find_first_of(std::string_view("\n\r\0", 3)) != std::string_view::npos)
    throw ValueError(
        stage, fmt::format("{}: the {} '{}' holds a line end or a zero byte", where, what, shown_text(name)));
}

}  // namespace etrace
