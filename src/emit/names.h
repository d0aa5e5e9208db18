// Text of others in emitted programs: paths, labels, names of models, functions, operators and files. It gets
// there as a comment, an identifier or a string of C, by these functions alone, and whatever it is, the
// tokens stay the same: nothing ends a comment or a string, joins lines, or is a trigraph.
#pragma once

#include <set>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace etrace::emit {

// Printable ASCII. Every other byte, \ and % are written %XX, and so is one of each pair */ /* // ??; what is
// cut ends in "%...". Whoever undoes %XX has the text again.
class CommentText {
 public:
  static constexpr std::size_t kMost = 400;  // characters
  CommentText() = default;
  explicit CommentText(std::string_view any);
  const std::string& str() const { return text_; }
  bool operator==(const CommentText&) const = default;

 private:
  std::string text_;
};
// "/* text */"; `ours` stands behind it.
std::string comment(const CommentText&, std::string_view ours = {});

// "rnn/Wz/weight.bias" -> rnn_Wz_weight_bias, at most kMostIdentifier characters. It may begin with a digit,
// be a word of the language, and be that of another name: something of ours stands in front of it.
constexpr std::size_t kMostIdentifier = 48;
std::string identifier(std::string_view any);

// "…" of any bytes, exactly.
std::string string_literal(std::string_view any);

// The words of emitted text outside comments: what it calls and reads, whatever names it was given.
class Words {
 public:
  explicit Words(std::string_view text);  // which stays
  bool has(std::string_view word) const { return words_.contains(word); }
  bool has_from(std::string_view start) const {
    const auto at = words_.lower_bound(start);
    return at != words_.end() && at->starts_with(start);
  }

 private:
  std::set<std::string_view> words_;
};

}  // namespace etrace::emit
#pragma GCC visibility pop
