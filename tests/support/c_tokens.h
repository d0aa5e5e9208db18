// Source text of C or C++ as its compiler sees it, in the phases of the standard: trigraphs, joined lines,
// comments, and then tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace etrace::testing {

struct CToken {
  // Broken: a comment, string or character that does not end, or a byte that is no token.
  enum Kind : std::uint8_t { Word, Number, String, Character, Header, Sign, Broken };
  Kind kind = Sign;
  std::string text;  // of a directive: "#", what follows, and "\n" at its end
  bool operator==(const CToken&) const = default;
};

// Where compilers differ.
struct CLanguage {
  bool trigraphs = false;          // -std=c99; not gnu99, not C++17
  bool returns_end_lines = false;  // a carriage return alone is the end of a line
  bool raw_strings = false;        // R"(…)" of C++ and gnu99
  bool line_comments = true;       // not C90
};
// Every way in which a compiler may read C, C++ and what lies between.
const std::vector<CLanguage>& c_languages();

std::vector<CToken> c_tokens(std::string_view text, const CLanguage&);

// Two programs that were emitted for different names have the same tokens: words may have other names behind
// a number or a role ("loop3_rnn_W", "model_param_rnn_W") but one for one, and strings other contents. Empty
// if it is so, else the first place where it is not.
std::string difference_of_tokens(const std::vector<CToken>& a, const std::vector<CToken>& b);

// `what` stands before an answer.
std::string difference_of_programs(const std::string& what, std::string_view a, std::string_view b,
                                   std::span<const CLanguage> languages = c_languages());

}  // namespace etrace::testing
