// etrace rules: the learning rules with their options; with a MODEL, all of them measured on it.
#include <fmt/format.h>

#include <iostream>

#include "cli/engine.h"
#include "cli/help.h"
#include "cli/memory_hint.h"
#include "cli/model_run.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/rule_option.h"
#include "cli/verbs.h"
#include "etrace/compare_rules.h"
#include "etrace/error.h"
#include "verify/compare_words.h"

namespace etrace::cli {

namespace {

struct RulesArguments {
  ModelRun run{"rules", 64};
  std::vector<std::string> only, skip;
  std::vector<std::int64_t> windows;
  std::optional<VjpMethod> method;
  std::string compat, html, backend = "interpreter";
  std::int64_t lags = 32, repeats = 3, seeds = 3;
  double seconds = 120.0;
  bool json = false, markdown = false;
};

const RuleRow& compared_row(const std::string& name) {
  const RuleRow& row = find_rule(name);
  if (row.compared.empty())
    throw ValueError("rules",
                     fmt::format("{} is a family and not one rule; name one of its members", row.name));
  return row;
}

std::vector<std::shared_ptr<const LearningRule>> chosen_rules(const RulesArguments& a) {
  std::vector<const RuleRow*> rows;
  for (const std::string& name : a.only) rows.push_back(&compared_row(name));
  if (rows.empty()) rows = rule_rows();
  for (const std::string& name : a.skip) std::erase(rows, &compared_row(name));
  std::vector<std::shared_ptr<const LearningRule>> out;
  for (const RuleRow* row : rows)
    for (const RuleOptions& o : row->compared) out.push_back(row->make(o));
  if (out.empty()) throw ValueError("rules", "--skip leaves no rule to measure");
  return out;
}

// Parameters and sequences of one seed after the other. What a file carries is the same for all of them.
std::vector<ModelDraw> draws_of(const RulesArguments& a) {
  std::vector<ModelDraw> out;
  for (std::int64_t i = 0; i < a.seeds; ++i) {
    ModelRun run = a.run;
    run.seed += static_cast<std::uint64_t>(i);
    Model model = run.make_model();
    const bool fixed = run.carries_sequences(model);
    Arrays sequences = run.sequences(model);
    out.push_back({std::move(model), std::move(sequences)});
    if (fixed) break;
  }
  return out;
}

CompareOptions options_of(const RulesArguments& a) {
  CompareOptions o;
  if (a.method == VjpMethod::SingleStep && !a.windows.empty())
    throw ValueError("rules", "--window is for --method multi-step, but the method is single-step");
  o.single_step = a.method != VjpMethod::MultiStep;
  if (!a.windows.empty()) o.windows = a.windows;
  if (a.method == VjpMethod::SingleStep) o.windows = {};
  if (!(a.seconds > 0.0))
    throw ValueError("rules", fmt::format("--seconds is {}; it must be positive", a.seconds));
  o.lags = a.lags;
  o.repeats = static_cast<int>(a.repeats);
  o.seconds = a.seconds;
  if (!a.compat.empty()) o.compat = Compat::Braintrace;
  o.backend = a.backend;
  return o;
}

void run_rules(const RulesArguments& a) {
  if (a.run.model.empty()) {
    if (a.json || a.markdown || !a.html.empty() || !a.only.empty() || !a.skip.empty())
      throw ValueError(
          "rules",
          "MODEL is missing: --json, --markdown, --html, --only and --skip are for rules that are "
          "measured on it");
    std::cout << rules_help() << "\netrace rules MODEL measures all of them on a model.\n";
    return;
  }
  require_writable("rules", {"--html", a.html});
  require_different_files("rules", {{"MODEL", a.run.model}, {"--html", a.html}});
  require_different_files("rules", {{"--load", a.run.load}, {"--html", a.html}});
  CompareOptions options = options_of(a);
  const auto rules = chosen_rules(a);
  const StepFunction f = a.run.step();
  const std::vector<ModelDraw> draws = draws_of(a);
  const bool table = a.html.empty() && !a.json && !a.markdown;
  if (table) std::cout << a.run.about_data();
  if (table)  // each row as soon as it is there
    options.on_row = [](const RuleComparison& c) {
      std::cout << (c.rows.empty() ? comparison_head(c) : comparison_row(c, c.rows.back())) << std::flush;
    };
  const RuleComparison found = compare_rules(draws, rules, f, options);
  if (table)
    std::cout << comparison_tail(found);
  else if (a.json)
    std::cout << found.to_json();
  else if (a.markdown)
    std::cout << found.to_markdown();
  else
    write_output(a.html, found.to_html());
}

void add_comparison_options(CLI::App& verb, RulesArguments& a) {
  verb.add_option("--only,--rule", a.only, "only this rule; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->take_all();
  verb.add_option("--skip", a.skip, "all but this rule; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->take_all();
  verb.add_option("--seconds", a.seconds,
                  "for everything; rules that cost little come first, and what would take longer is listed "
                  "(default: 120)")
      ->type_name("X")
      ->check(number());
  verb.add_option("--seeds", a.seeds,
                  "draws of parameters and sequences, from --seed on (default: 3; what a file carries: one)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, std::int64_t{1000}));
  add_method_option(verb, a.method, "both, where a rule can");
  verb.add_option("--window", a.windows, "steps per window, several are possible (default: 1, 8, 32)")
      ->type_name("N …")
      ->check(whole_number(std::int64_t{1}, std::int64_t{1} << 20));
  a.run.add_sequence_options(verb);
  verb.add_option("--lags", a.lags, "how far back credit is followed (default: 32; 0: not at all)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{0}, std::int64_t{1} << 20));
  verb.add_option("--repeats", a.repeats, "runs that are timed, of which the quickest counts (default: 3)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, std::int64_t{1000}));
  verb.add_option("--compat", a.compat, "compile as this system does, known faults included: braintrace")
      ->type_name("NAME")
      ->check(one_of({"braintrace"}));
  add_backend_option(verb, a.backend);
  auto* json = verb.add_flag("--json", a.json, "everything, for programs");
  auto* markdown = verb.add_flag("--markdown", a.markdown, "the table, for documents")->excludes(json);
  verb.add_option("--html", a.html,
                  "write one self-contained page with a plot to this file; -: to standard output")
      ->type_name("FILE")
      ->excludes(json)
      ->excludes(markdown);
}

}  // namespace

void add_rules(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand("rules", "list the learning rules, or measure all of them on a model");
  auto a = std::make_shared<RulesArguments>();
  a->run.add_model_options(*verb);
  verb->get_option("MODEL")->required(false);
  add_comparison_options(*verb, *a);
  verb->footer([] { return rules_short_help() + "\n" + help_table("Losses", loss::all()); });
  verb->callback([a] {
    with_memory_hint("--steps, --batch and --sizes make it smaller, as does --lags 0",
                     [&] { run_rules(*a); });
  });
}

}  // namespace etrace::cli
