#include "emit/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace etrace::emit {

namespace {

// Not <cctype>, which asks the locale.
bool is_word(char ch) {
  return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_';
}
bool is_printable(char ch) { return ch >= ' ' && ch <= '~'; }

// With the character before it this begins or ends a comment, or begins a trigraph.
bool makes_pair(char before, char ch) {
  return (before == '*' && ch == '/') || (before == '/' && (ch == '*' || ch == '/')) ||
         (before == '?' && ch == '?');
}

}  // namespace

CommentText::CommentText(std::string_view any) {
  for (const char ch : any) {
    const char before = text_.empty() ? ' ' : text_.back();
    const bool as_it_is = is_printable(ch) && ch != '\\' && ch != '%' && !makes_pair(before, ch);
    const std::string next =
        as_it_is ? std::string(1, ch) : fmt::format("%{:02X}", static_cast<unsigned char>(ch));
    if (text_.size() + next.size() > kMost) {
      text_ += "%...";
      return;
    }
    text_ += next;
  }
}

std::string comment(const CommentText& text, std::string_view ours) {
  return fmt::format("/* {}{} */", text.str(), ours);
}

std::string identifier(std::string_view any) {
  std::string out;
  for (const char ch : any.substr(0, kMostIdentifier)) out += is_word(ch) ? ch : '_';
  return out;
}

std::string string_literal(std::string_view any) {
  std::string out = "\"";
  for (const char ch : any) {
    if (is_printable(ch) && ch != '"' && ch != '\\' && ch != '?')
      out += ch;
    else
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(ch));
  }
  return out + "\"";
}

Words::Words(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
    } else if (!is_word(text[i])) {
      ++i;
    } else {
      std::size_t end = i;
      while (end < text.size() && is_word(text[end])) ++end;
      words_.insert(text.substr(i, end - i));
      i = end;
    }
  }
}

}  // namespace etrace::emit
