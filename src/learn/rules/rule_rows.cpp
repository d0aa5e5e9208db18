// The table of rules, and options by name.
#include "learn/rules/rule_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace {

namespace {

std::vector<std::unique_ptr<const RuleRow>>& rule_table() {
  static std::vector<std::unique_ptr<const RuleRow>> rows;
  return rows;
}

// Names are compared without case, blanks, '_' and '-'.
std::string plain_name(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool answers_to(const RuleRow& row, std::string_view name) {
  const std::string wanted = plain_name(name);
  return plain_name(row.name) == wanted ||
         std::any_of(row.aliases.begin(), row.aliases.end(),
                     [&](const std::string& alias) { return plain_name(alias) == wanted; });
}

std::string option_names(const RuleRow& row) {
  std::string out;
  for (const RuleOption& o : row.options) out += (out.empty() ? "" : ", ") + o.name;
  return out.empty() ? "none" : out;
}

}  // namespace

RegisterRule::RegisterRule(RuleRow row) {
  std::vector<std::unique_ptr<const RuleRow>>& rows = rule_table();
  const auto by_name = [](const auto& r, const std::string& name) {
    return plain_name(r->name) < plain_name(name);
  };
  const auto at = std::lower_bound(rows.begin(), rows.end(), row.name, by_name);
  rows.insert(at, std::make_unique<const RuleRow>(std::move(row)));
}

std::vector<const RuleRow*> rule_rows() {
  std::vector<const RuleRow*> out;
  for (const auto& row : rule_table()) out.push_back(row.get());
  return out;
}

const RuleRow& find_rule(std::string_view name) {
  std::vector<std::string> known;
  for (const RuleRow* row : rule_rows()) {
    if (answers_to(*row, name)) return *row;
    known.push_back(row->name);
  }
  throw ValueError("learn", no_such_name("learning rule", name, known));
}

const RuleRow* rule_row_of(const LearningRule& rule) {
  for (const RuleRow* row : rule_rows())
    if (row->name == rule.name()) return row;
  return nullptr;
}

std::shared_ptr<const LearningRule> make_rule(std::string_view name, const RuleOptions& options) {
  const RuleRow& row = find_rule(name);
  for (const auto& [key, value] : options.items()) {
    const bool known = std::any_of(row.options.begin(), row.options.end(),
                                   [&, &key = key](const RuleOption& o) { return o.name == key; });
    if (!known && !value.is_null())
      throw TypeError("learn",
                      fmt::format("{} takes no option {}; it takes: {}", row.name, key, option_names(row)));
  }
  return row.make(options);
}

// Options ---------------------------------------------------------------------------------------------------
void RuleOptions::set(std::string name, Attr value) {
  for (Item& item : items_)
    if (item.first == name) {
      item.second = std::move(value);
      return;
    }
  items_.emplace_back(std::move(name), std::move(value));
}

const Attr* RuleOptions::find(std::string_view name) const {
  for (const Item& item : items_)
    if (item.first == name && !item.second.is_null()) return &item.second;
  return nullptr;
}

namespace {
[[noreturn]] void wrong_option(std::string_view name, const Attr& found, const char* expected) {
  throw TypeError("learn", fmt::format("option {} is {}; it takes {}", name, to_string(found), expected));
}
}  // namespace

std::optional<double> RuleOptions::number(std::string_view name) const {
  const Attr* a = find(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* d = a->get_if<double>()) return *d;
  if (const auto* i = a->get_if<std::int64_t>()) return static_cast<double>(*i);
  wrong_option(name, *a, "a number");
}

std::optional<std::int64_t> RuleOptions::integer(std::string_view name) const {
  const Attr* a = find(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* i = a->get_if<std::int64_t>()) return *i;
  wrong_option(name, *a, "a whole number");
}

std::optional<std::string> RuleOptions::text(std::string_view name) const {
  const Attr* a = find(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* s = a->get_if<std::string>()) return *s;
  wrong_option(name, *a, "a word");
}

std::optional<bool> RuleOptions::flag(std::string_view name) const {
  const Attr* a = find(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* b = a->get_if<bool>()) return *b;
  wrong_option(name, *a, "true or false");
}

std::optional<Dtype> RuleOptions::dtype(std::string_view name) const {
  const Attr* a = find(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* s = a->get_if<std::string>())
    if (const std::optional<Dtype> d = dtype_from_name(*s)) return d;
  wrong_option(name, *a, "an element type such as f32");
}

std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> out;
  std::string item;
  for (const char c : text + ",") {
    if (c != ',') {
      if (c != ' ') item += c;
    } else if (!item.empty()) {
      out.push_back(std::exchange(item, {}));
    }
  }
  return out;
}

// Defaults of rules -----------------------------------------------------------------------------------------
std::string_view name(VjpMethod m) { return m == VjpMethod::SingleStep ? "single-step" : "multi-step"; }

LearningRule::Theory LearningRule::theory(bool) const {
  return {Theory::Unknown, "nothing is known about the rule " + name()};
}

Arrays BoundRule::initial(std::uint64_t seed) const {
  Arrays out;
  std::uint64_t count = 0;
  for (const TraceSlot& s : slots())
    out.push_back(s.role == PortRole::Key ? random::key(seed + count++) : zeros_of(s.aval));
  return out;
}

Arrays BoundRule::learning_signal(const WindowData&, ArraySpan, SignalTo, Arrays signal) const {
  return signal;
}

Arrays BoundRule::exit_estimate(const WindowData&, ArraySpan, ArraySpan) const { return {}; }

}  // namespace etrace
