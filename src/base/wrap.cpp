#include "base/wrap.h"

#include <algorithm>
#include <sstream>

namespace etrace {

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string wrapped(std::string_view first, std::size_t indent, std::string_view text) {
  std::string out(first);
  std::size_t column = columns(out);
  if (column + 1 > indent && !text.empty()) {
    out += "\n";
    column = 0;
  }
  out.append(indent - std::min(indent, column), ' ');
  column = indent;
  std::istringstream words{std::string(text)};
  bool begins = true;
  for (std::string word; words >> word; begins = false) {
    if (!begins && column + 1 + columns(word) > kTextWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
      begins = true;
    }
    out += (begins ? "" : " ") + word;
    column += (begins ? 0 : 1) + columns(word);
  }
  return out + "\n";
}

}  // namespace etrace
