#include "train/rule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "etrace/error.h"

namespace etrace::train {

namespace {

template <class Number>
std::optional<Number> number_from(std::string_view text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Attr option_value(std::string_view text) {
  if (const auto whole = number_from<std::int64_t>(text)) return Attr(*whole);
  if (const auto real = number_from<double>(text)) return Attr(*real);
  if (text == "true" || text == "false") return Attr(text == "true");
  return Attr(std::string(text));
}

}  // namespace

bool is_bptt(std::string_view rule) {
  return std::equal(rule.begin(), rule.end(), kBptt.begin(), kBptt.end(),
                    [](unsigned char a, unsigned char b) { return std::toupper(a) == b; });
}

std::string rule_name(const std::string& rule) {
  return is_bptt(rule) ? std::string(kBptt) : find_rule(rule).name;
}

std::shared_ptr<const LearningRule> rule_from(const std::string& rule,
                                              const std::vector<std::string>& options) {
  if (is_bptt(rule)) {
    if (!options.empty())
      throw ValueError("rule", fmt::format("BPTT has no options; leave out --rule-option {}", options[0]));
    return make_rule("D_RTRL");  // of which nothing is used: reverse mode runs through whole sequences
  }
  RuleOptions given;
  for (const std::string& text : options) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw ValueError("rule", fmt::format("--rule-option {}: expected NAME=VALUE", text));
    given.set(text.substr(0, equals), option_value(std::string_view(text).substr(equals + 1)));
  }
  return make_rule(rule, given);
}

void require_modulator(const char* stage, const LearningRule& rule) {
  if (!rule.takes_modulator() || rule.standing_modulator().defined()) return;
  throw ValueError(stage, fmt::format("{} needs a third factor, which takes the place of the loss; give it a "
                                      "number, as in --rule-option modulator=1",
                                      rule.name()));
}

}  // namespace etrace::train
