// etrace verify MODEL: the gradient of a rule against BPTT, per parameter, window length and lag.
#include "etrace/verify.h"

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
#include "etrace/error.h"
#include "train/rule_text.h"

namespace etrace::cli {

namespace {

struct VerifyArguments {
  ModelRun run{"verify"};
  std::string html, backend = "interpreter";
  RuleArguments rule;
  std::vector<std::int64_t> windows;
  std::optional<VjpMethod> method;
  std::string compat;
  std::int64_t lags = 32;
  bool json = false, finite_differences = false, rtrl = false;
};

constexpr std::int64_t kMost = std::int64_t{1} << 20;  // of steps

void run_verify(const VerifyArguments& o, Status& status) {
  require_writable("verify", {"--html", o.html});
  require_different_files("verify", {{"MODEL", o.run.model}, {"--html", o.html}});
  require_different_files("verify", {{"--load", o.run.load}, {"--html", o.html}});
  const std::shared_ptr<const LearningRule> rule = o.rule.make();
  train::require_modulator("verify", *rule);
  const StepFunction f = o.run.step();
  const Model model = o.run.make_model();
  const Arrays sequences = o.run.sequences(model);
  VerifyOptions options;
  options.windows = o.windows;
  options.method = o.method;
  if (!o.compat.empty()) options.compat = Compat::Braintrace;
  if (o.method == VjpMethod::SingleStep && !o.windows.empty())
    throw ValueError("verify", "--window is for --method multi-step, but the method is single-step");
  options.lags = o.lags;
  options.backend = o.backend;
  options.finite_differences = o.finite_differences;
  options.full_rtrl = o.rtrl;
  const VerifyReport report = verify(model, *rule, sequences, f, options);
  if (!o.html.empty())
    write_output(o.html, report.to_html());
  else
    std::cout << (o.json ? report.to_json() : o.run.about_data() + report.to_string());
  if (report.met()) return;
  status.code = 1;
  if (!o.html.empty())
    for (const std::string& line : report.failures()) std::cerr << "NOT MET: " << line << "\n";
}

void add_measure_options(CLI::App& verb, VerifyArguments& o) {
  o.run.add_sequence_options(verb);
  add_method_option(verb, o.method, "both, where the rule can");
  verb.add_option("--compat", o.compat, "compile as this system does, known faults included: braintrace")
      ->type_name("NAME")
      ->check(one_of({"braintrace"}));
  verb.add_option("--window", o.windows,
                  "steps per window, several are possible (default: 1, 2, 5, half, all)")
      ->type_name("N …")
      ->check(whole_number(std::int64_t{1}, kMost));
  verb.add_option("--lags", o.lags, "how far back credit is followed (default: 32; 0: not at all)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{0}, kMost));
  add_backend_option(verb, o.backend);
  auto* json = verb.add_flag("--json", o.json, "everything, for programs");
  verb.add_option("--html", o.html,
                  "write one self-contained page with plots to this file; -: to standard output")
      ->type_name("FILE")
      ->excludes(json);
  verb.add_flag("--finite-differences", o.finite_differences,
                "also check BPTT itself by central differences");
  verb.add_flag("--rtrl", o.rtrl, "also check BPTT itself by full RTRL (small models)");
}

}  // namespace

void add_verify(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("verify", "compare the gradient of a learning rule with BPTT");
  auto o = std::make_shared<VerifyArguments>();
  o->run.add_model_options(*verb);
  o->rule.add_to(*verb);
  add_measure_options(*verb, *o);
  verb->footer([] { return rules_short_help() + "\n" + help_table("Losses", loss::all()); });
  verb->callback([o, &status] {
    with_memory_hint("--steps, --batch and --sizes make it smaller, as does --lags 0",
                     [&] { run_verify(*o, status); });
  });
}

}  // namespace etrace::cli
