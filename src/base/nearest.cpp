// Distances between names; see the header.
#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace etrace {

namespace {

// One spelling for those that mean the same.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// What it costs to turn one name into another. A letter that is missing, surplus or swapped with its
// neighbour is a likelier slip than another letter, which decides between names that are otherwise equally
// close.
constexpr std::size_t kSwap = 8, kMissing = 9, kSurplus = 9, kOther = 10;
constexpr std::size_t kLettersPerMistake = 3;

std::size_t edit_cost(std::string_view given, std::string_view name) {
  std::vector<std::size_t> before(name.size() + 1), last(name.size() + 1), row(name.size() + 1);
  for (std::size_t j = 0; j <= name.size(); ++j) last[j] = kMissing * j;
  for (std::size_t i = 1; i <= given.size(); ++i) {
    row[0] = kSurplus * i;
    for (std::size_t j = 1; j <= name.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (given[i - 1] == name[j - 1] ? 0 : kOther);
      row[j] = std::min({last[j] + kSurplus, row[j - 1] + kMissing, replaced});
      if (i > 1 && j > 1 && given[i - 1] == name[j - 2] && given[i - 2] == name[j - 1])
        row[j] = std::min(row[j], before[j - 2] + kSwap);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[name.size()];
}

constexpr std::size_t kShortestPart = 3;  // of a name that begins or ends others

}  // namespace

std::string nearest_name(std::string_view given, std::span<const std::string> known) {
  const std::string wanted = plain(given);
  if (wanted.empty()) return "";
  for (const std::string& name : known)
    if (plain(name).ends_with("/" + wanted)) return name;
  const std::string* best = nullptr;
  std::size_t least = 0;
  for (const std::string& name : known) {
    const std::size_t shorter = std::min(wanted.size(), name.size());
    const std::size_t longer = std::max(wanted.size(), name.size());
    const std::size_t cost = edit_cost(wanted, plain(name));
    const std::size_t mistakes = std::max<std::size_t>(1, (longer + 1) / kLettersPerMistake);
    if (cost > kOther * mistakes || cost >= kMissing * shorter) continue;  // too far, or nothing in common
    if (best == nullptr || cost < least) {
      best = &name;
      least = cost;
    }
  }
  if (best != nullptr) return *best;
  if (wanted.size() < kShortestPart) return "";
  for (const std::string& name : known)
    if (const std::string other = plain(name); other.starts_with(wanted) || other.ends_with(wanted))
      return name;
  return "";
}

std::string did_you_mean(std::string_view given, std::span<const std::string> known) {
  const std::string name = nearest_name(given, known);
  return name.empty() ? "" : fmt::format(" (did you mean {}?)", name);
}

std::string no_such_name(std::string_view kind, std::string_view given, std::span<const std::string> known) {
  return fmt::format("there is no {} '{}'{}; expected one of {}", kind, given, did_you_mean(given, known),
                     fmt::join(known, ", "));
}

}  // namespace etrace
