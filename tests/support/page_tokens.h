// The tags of a page, as a browser finds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etrace::testing {

// "tr", "td class", "/td" …: names of tags and attributes, in order; "!" where there is a comment or what is
// no tag. What is inside of a script or a style is text.
inline std::vector<std::string> page_tokens(std::string_view page) {
  constexpr std::string_view kSpace = " \t\n\f\r";
  std::vector<std::string> out;
  for (std::size_t at = page.find('<'); at != std::string_view::npos; at = page.find('<', at)) {
    std::size_t end = page.find_first_of(" \t\n\f\r/>", at + 1 + (page.substr(at + 1, 1) == "/" ? 1 : 0));
    if (end == std::string_view::npos) return out.push_back("!"), out;
    std::string tag(page.substr(at + 1, end - at - 1));
    const std::string name = tag;
    if (name.starts_with("!") && name != "!doctype" && name != "!DOCTYPE") return out.push_back("!"), out;
    while (end < page.size() && page[end] != '>') {
      end = page.find_first_not_of(" \t\n\f\r/", end);
      if (end == std::string_view::npos || page[end] == '>') break;
      const std::size_t stop = page.find_first_of("= \t\n\f\r/>", end);
      if (stop == std::string_view::npos) return out.push_back("!"), out;
      tag += " " + std::string(page.substr(end, stop - end));
      end = stop;
      if (page[end] != '=') continue;
      const std::size_t value = page.find_first_not_of(kSpace, end + 1);
      if (value == std::string_view::npos) return out.push_back("!"), out;
      const bool quoted = page[value] == '"' || page[value] == '\'';
      end = quoted ? page.find(page[value], value + 1) : page.find_first_of(" \t\n\f\r>", value);
      if (end == std::string_view::npos) return out.push_back("!"), out;
      if (quoted) ++end;
    }
    out.push_back(tag);
    at = std::min(end, page.size());
    if (name == "script" || name == "style") at = std::min(page.find("</" + name, at), page.size());
  }
  return out;
}

}  // namespace etrace::testing
