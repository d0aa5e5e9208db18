#include "support/c_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

namespace etrace::testing {

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (c & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }

// Phases 1 and 2.
std::string one_kind_of_line(std::string_view text, const CLanguage& l) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r')
      out += text[i];
    else if (text.substr(i, 2) == "\r\n")
      continue;
    else
      out += l.returns_end_lines ? '\n' : '\r';
  }
  return out;
}
std::string without_trigraphs(const std::string& text) {
  constexpr std::string_view from = "=/'()!<>-", to = "#\\^[]|{}~";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t k = text.compare(i, 2, "?\?") == 0 && i + 2 < text.size() ? from.find(text[i + 2])
                                                                                : std::string_view::npos;
    if (k == std::string_view::npos) {
      out += text[i];
    } else {
      out += to[k];
      i += 2;
    }
  }
  return out;
}
// Compilers join lines over spaces behind the backslash, too.
std::string joined_lines(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t end = i + 1;
    while (text[i] == '\\' && end < text.size() && is_space(text[end])) ++end;
    if (text[i] == '\\' && end < text.size() && text[end] == '\n')
      i = end;
    else
      out += text[i];
  }
  return out;
}

constexpr std::string_view kSigns[] = {
    "%:%:", "<<=", ">>=", "...", "->*", "<=>", "##", "%:", "<:", ":>", "<%",
    "%>",   "->",  "++",  "--",  "<<",  ">>",  "<=", ">=", "==", "!=", "&&",
    "||",   "+=",  "-=",  "*=",  "/=",  "%=",  "&=", "|=", "^=", "::", ".*"};
constexpr std::pair<std::string_view, std::string_view> kDigraphs[] = {
    {"%:%:", "##"}, {"%:", "#"}, {"<:", "["}, {":>", "]"}, {"<%", "{"}, {"%>", "}"}};

// Phase 3.
class Lexer {
 public:
  Lexer(std::string text, const CLanguage& l) : text_(std::move(text)), l_(l) {}

  std::vector<CToken> run() {
    while (at_ < text_.size()) next();
    end_line();
    return std::move(out_);
  }

 private:
  char here(std::size_t k = 0) const { return at_ + k < text_.size() ? text_[at_ + k] : '\n'; }
  bool is(std::string_view what) const { return text_.compare(at_, what.size(), what) == 0; }
  void add(CToken::Kind kind, std::size_t end) {
    out_.push_back({kind, text_.substr(at_, end - at_)});
    at_ = end;
    fresh_ = false;
  }
  void end_line() {
    if (directive_) out_.push_back({CToken::Sign, "\n"});
    directive_ = false, fresh_ = true;
  }

  void next() {
    const char c = here();
    if (c == '\n') return ++at_, end_line();
    if (is_space(c)) return void(++at_);
    if (is("/*")) return comment();
    if (l_.line_comments && is("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    if (is_letter(c)) return word();
    if (is_digit(c) || (c == '.' && is_digit(here(1)))) return number();
    if (c == '"' || c == '\'') return quoted(c);
    if (c == '<' && directive_ && out_.back().text == "include") {
      const std::size_t end = text_.find_first_of(">\n", at_);
      if (end != std::string::npos && text_[end] == '>') return add(CToken::Header, end + 1);
    }
    sign();
  }
  void comment() {
    const std::size_t end = text_.find("*/", at_ + 2);
    if (end == std::string::npos) return add(CToken::Broken, text_.size());
    at_ = end + 2;
  }
  void word() {
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const bool raw = l_.raw_strings && text_[end - 1] == 'R' && end - at_ <= 3 && text_[end] == '"';
    if (!raw) return add(CToken::Word, end);
    const std::size_t open = text_.find('(', end);
    if (open == std::string::npos) return add(CToken::Broken, text_.size());
    const std::string closing = ")" + text_.substr(end + 1, open - end - 1) + "\"";
    const std::size_t close = text_.find(closing, open);
    if (close == std::string::npos) return add(CToken::Broken, text_.size());
    add(CToken::String, close + closing.size());
  }
  void number() {
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]) || text_[end] == '.' ||
                                  ((text_[end] == '+' || text_[end] == '-') &&
                                   std::string_view("eEpP").find(text_[end - 1]) != std::string_view::npos)))
      ++end;
    add(CToken::Number, end);
  }
  void quoted(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size() || text_[end] != quote) return add(CToken::Broken, std::min(end, text_.size()));
    add(quote == '"' ? CToken::String : CToken::Character, end + 1);
  }
  void sign() {
    std::size_t length = 1;
    for (const std::string_view s : kSigns)
      if (is(s)) {
        length = s.size();
        break;
      }
    const bool known =
        std::string_view("{}[]()#;:,.?~!+-*/%^&|<>=@`\\").find(here()) != std::string_view::npos;
    const bool first = fresh_;
    add(known ? CToken::Sign : CToken::Broken, at_ + length);
    for (const auto& [digraph, sign] : kDigraphs)
      if (out_.back().text == digraph) out_.back().text = sign;
    if (first && out_.back().text == "#") directive_ = true;
  }

  const std::string text_;
  const CLanguage l_;
  std::size_t at_ = 0;
  std::vector<CToken> out_;
  bool fresh_ = true, directive_ = false;
};

// Words that were made of names: the same up to a number or a role.
bool may_be_renamed(const std::string& a, const std::string& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  const std::string common(a.begin(), end);
  const std::size_t role = std::min(common.find('_'), common.find_first_of("0123456789"));
  return role != std::string::npos && !common.starts_with("etp_");
}

}  // namespace

const std::vector<CLanguage>& c_languages() {
  static const std::vector<CLanguage> all{
      {},
      {.trigraphs = true},
      {.returns_end_lines = true, .raw_strings = true},
      {.trigraphs = true, .returns_end_lines = true, .line_comments = false}};
  return all;
}

std::vector<CToken> c_tokens(std::string_view text, const CLanguage& l) {
  std::string lines = one_kind_of_line(text, l);
  if (l.trigraphs) lines = without_trigraphs(lines);
  return Lexer(joined_lines(lines), l).run();
}

std::string difference_of_tokens(const std::vector<CToken>& a, const std::vector<CToken>& b) {
  std::map<std::string, std::string> there, back;
  const auto words = [&](const std::string& x, const std::string& y) {
    if (x != y && !may_be_renamed(x, y)) return false;
    return there.try_emplace(x, y).first->second == y && back.try_emplace(y, x).first->second == x;
  };
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i].kind == b[i].kind && a[i].kind != CToken::Broken) {
      if (a[i].kind == CToken::String) continue;
      if (a[i].kind == CToken::Word ? words(a[i].text, b[i].text) : a[i].text == b[i].text) continue;
    }
    const auto shown = [&](const std::vector<CToken>& all) {
      std::string out;
      for (std::size_t k = i < 6 ? 0 : i - 6; k < std::min(all.size(), i + 6); ++k)
        out += (k == i ? " >>> " : " ") + all[k].text.substr(0, 200);
      return out;
    };
    return fmt::format("token {}:{}\n  and:{}\n", i, shown(a), shown(b));
  }
  return "";
}

std::string difference_of_programs(const std::string& what, std::string_view a, std::string_view b,
                                   std::span<const CLanguage> languages) {
  for (const CLanguage& l : languages) {
    const std::string found = difference_of_tokens(c_tokens(a, l), c_tokens(b, l));
    if (!found.empty())
      return fmt::format("{} (trigraphs {}, returns {}, raw strings {}): {}", what, l.trigraphs,
                         l.returns_end_lines, l.raw_strings, found);
  }
  return "";
}

}  // namespace etrace::testing
