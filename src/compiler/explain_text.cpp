// Words and spellings; see the header.
#include "compiler/explain_text.h"

#include <fmt/format.h>

#include <array>

#include "etrace/param_values.h"

namespace etrace {

std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  const std::ptrdiff_t first = n < 0 ? 1 : 0;
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > first; i -= 3)
    text.insert(text.begin() + i, ',');
  return text;
}

std::string counted(std::size_t n, std::string_view one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string short_list(const std::vector<std::string>& parts, std::size_t most) {
  if (parts.size() <= most) return join(parts);
  return join({parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(most)}) +
         fmt::format(" and {} more", parts.size() - most);
}

std::string path_list(const std::vector<StatePath>& paths) {
  std::vector<std::string> parts;
  for (const StatePath& p : paths) parts.push_back(to_string(p));
  return join(parts);
}

std::string group_list(const std::vector<std::size_t>& groups) {
  return fmt::format("group{} {}", groups.size() == 1 ? "" : "s", fmt::join(groups, ", "));
}

std::string leaf_text(const StatePath& path, const StatePath& leaf_key) {
  return to_string(ParamLeafId{path, 0, to_string(leaf_key)});
}

std::string_view meaning(PathClassification c) {
  switch (c) {
    case PathClassification::AllDirect:
      return "every way to the hidden state is followed";
    case PathClassification::AllThroughOtherEtp:
      return "every way leads through another trainable operator";
    case PathClassification::Mixed:
      return "one way is followed; another of the same weight is left out";
  }
  return "";
}

}  // namespace etrace
