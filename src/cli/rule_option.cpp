#include "cli/rule_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "cli/help.h"
#include "cli/option_values.h"
#include "etrace/error.h"

namespace etrace::cli {

namespace {

template <class Number>
std::optional<Number> number_from(std::string_view text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Attr parsed_option(std::string_view text) {
  if (const auto whole = number_from<std::int64_t>(text)) return Attr(*whole);
  if (const auto real = number_from<double>(text)) return Attr(*real);
  if (text == "true" || text == "false") return Attr(text == "true");
  return Attr(std::string(text));
}

}  // namespace

namespace {

std::string rules_table(std::string text, bool options) {
  std::size_t indent = 0;
  for (const RuleRow* row : rule_rows()) indent = std::max(indent, row->name.size() + 4);
  for (const RuleRow* row : rule_rows()) {
    text += wrapped("  " + row->name, indent, row->doc);
    if (!options) continue;
    for (const RuleOption& o : row->options) {
      const std::string takes = o.range + (o.fallback.empty() ? "" : ", default " + o.fallback);
      text += wrapped(std::string(indent, ' ') + o.name + ":", indent + 4,
                      takes.empty() ? o.help : fmt::format("{} ({})", o.help, takes));
    }
  }
  return text;
}

}  // namespace

std::string rules_help() { return rules_table("Learning rules, and what --rule-option can change:\n", true); }
std::string rules_short_help() {
  return rules_table("Learning rules; `etrace rules` lists what --rule-option can change:\n", false);
}

void add_method_option(CLI::App& verb, std::optional<VjpMethod>& method, const std::string& otherwise) {
  const auto set = [&method](const std::string& text) {
    method = text == name(VjpMethod::SingleStep) ? VjpMethod::SingleStep : VjpMethod::MultiStep;
  };
  verb.add_option_function<std::string>(
          "--method", set,
          fmt::format("single-step: every step's loss meets the trace; multi-step: reverse mode inside of "
                      "windows, the trace at their borders (default: {})",
                      otherwise))
      ->type_name("NAME")
      ->check(one_of({std::string(name(VjpMethod::SingleStep)), std::string(name(VjpMethod::MultiStep))}));
}

void RuleArguments::add_to(CLI::App& verb) {
  verb.add_option("--rule", rule, "learning rule, see below")->type_name("NAME")->capture_default_str();
  verb.add_option("--rule-option", options, "an option of the rule, see below; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->take_all();
  verb.add_option("--decay", decay, "how slowly a factorised rule forgets, in [0, 1): its decay_or_rank")
      ->type_name("X")
      ->check(number());
  verb.add_option("--rank", rank, "the same as a rank of at least 1")
      ->type_name("N")
      ->check(whole_number<int>(1, std::numeric_limits<int>::max()));
  verb.add_option("--input-decay", input_decay, "the same for the input side alone")
      ->type_name("X")
      ->check(number());
  verb.add_option("--trace-dtype", trace_dtype, "f16 or bf16 halve the traces: the rule's trace_dtype")
      ->type_name("TYPE");
}

std::shared_ptr<const LearningRule> RuleArguments::make() const {
  RuleOptions given;
  if (decay && rank) throw ValueError("rule", "--decay and --rank say the same thing; give one of them");
  if (decay) given.set("decay_or_rank", *decay);
  if (rank) given.set("decay_or_rank", static_cast<std::int64_t>(*rank));
  if (input_decay) given.set("input_decay_or_rank", *input_decay);
  if (!trace_dtype.empty()) given.set("trace_dtype", trace_dtype);
  for (const std::string& text : options) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw ValueError("rule", fmt::format("--rule-option {}: expected NAME=VALUE", text));
    given.set(text.substr(0, equals), parsed_option(std::string_view(text).substr(equals + 1)));
  }
  return make_rule(rule, given);
}

void require_modulator(const char* stage, const LearningRule& rule) {
  if (!rule.takes_modulator() || rule.standing_modulator().defined()) return;
  throw ValueError(
      stage, fmt::format("{} needs a third factor, which meets the trace in place of the loss; give it a "
                         "number, as in --rule-option modulator=1",
                         rule.name()));
}

}  // namespace etrace::cli
