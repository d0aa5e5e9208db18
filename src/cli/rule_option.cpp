#include "cli/rule_option.h"

#include <fmt/format.h>

#include <charconv>

#include <algorithm>
#include <limits>

#include "cli/help.h"
#include "cli/option_values.h"
#include "etrace/error.h"
#include "train/rule_text.h"

namespace etrace::cli {

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

namespace {

TracePassWish trace_pass_wish(const std::string& text) {
  const std::size_t at = text.rfind('=');
  const std::string what = at == std::string::npos ? "" : text.substr(at + 1);
  TracePassWish out{text.substr(0, std::min(at, text.size()))};
  out.form = trace_form(what);
  if (out.form) return out;
  int threads = 0;
  const auto [end, error] = std::from_chars(what.data(), what.data() + what.size(), threads);
  if (error != std::errc() || end != what.data() + what.size() || threads < 1)
    throw CLI::ValidationError("--trace-pass",
                               fmt::format("'{}' is not NAME=FORM or NAME=THREADS; forms: step, tiles, "
                                           "products, rows, lines, patches, wide",
                                           text));
  out.threads = threads;
  return out;
}

}  // namespace

void add_trace_pass_option(CLI::App& verb, std::vector<TracePassWish>& passes) {
  verb.add_option_function<std::vector<std::string>>(
          "--trace-pass",
          [&passes](const std::vector<std::string>& all) {
            for (const std::string& text : all) passes.push_back(trace_pass_wish(text));
          },
          "how the pass over a trace runs (default: chosen): step, tiles, products, rows, lines, patches, "
          "wide, or "
          "a number of threads; * means all traces; may be repeated")
      ->type_name("TRACE=FORM|THREADS");
}

void add_method_option(CLI::App& verb, std::optional<VjpMethod>& method, const std::string& otherwise) {
  const auto set = [&method](const std::string& text) {
    method = text == name(VjpMethod::SingleStep) ? VjpMethod::SingleStep : VjpMethod::MultiStep;
  };
  verb.add_option_function<std::string>(
          "--method", set,
          fmt::format("single-step: reverse mode through each step, traces for all that lies before it; "
                      "multi-step: reverse mode through windows, traces for what lies before a window "
                      "(default: {})",
                      otherwise))
      ->type_name("NAME")
      ->check(one_of({std::string(name(VjpMethod::SingleStep)), std::string(name(VjpMethod::MultiStep))}));
}

void RuleArguments::add_to(CLI::App& verb) {
  verb.add_option(
          "--rule", rule,
          rule.empty() ? "learning rule, see below (default: the task's)" : "learning rule, see below")
      ->type_name("NAME")
      ->capture_default_str();
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

std::vector<std::string> RuleArguments::option_texts() const {
  std::vector<std::string> out;
  if (decay && rank) throw ValueError("rule", "--decay and --rank say the same thing; give one of them");
  if (decay) out.push_back(fmt::format("decay_or_rank={}", *decay));
  if (rank) out.push_back(fmt::format("decay_or_rank={}", *rank));
  if (input_decay) out.push_back(fmt::format("input_decay_or_rank={}", *input_decay));
  if (!trace_dtype.empty()) out.push_back("trace_dtype=" + trace_dtype);
  out.insert(out.end(), options.begin(), options.end());
  return out;
}

std::shared_ptr<const LearningRule> RuleArguments::make() const {
  return train::rule_from(rule, option_texts());
}

}  // namespace etrace::cli
