// etrace export MODEL: the learner as C for a device, its sizes, and the proof that it computes the same
// bits.
#include <fmt/format.h>

#include <charconv>
#include <iostream>

#include "base/nearest.h"
#include "cli/help.h"
#include "cli/model_choice.h"
#include "cli/option_values.h"
#include "cli/rule_option.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/export.h"
#include "etrace/loss.h"
#include "io/step_outputs.h"

namespace etrace::cli {

namespace {

struct ExportCommand : ModelChoice {
  ExportCommand() : ModelChoice("export", Dtype::F32) {}
  RuleArguments rule;
  std::optional<VjpMethod> method;
  std::string loss = "mse", optimizer = "sgd", folder, ram;
  std::optional<double> rate;
  ExportOptions options;
  std::vector<std::string> boards;
  std::vector<TracePassWish> trace_passes;
  std::int64_t updates = 500;
  bool report = false, check = false, project = false, arduino = false;
};

// "64K", "52000", "1M"
std::int64_t bytes_option(const std::string& text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || n < 1 || n > (std::int64_t{1} << 40) ||
      (!unit.empty() && unit != "K" && unit != "M"))
    throw ValueError("export",
                     fmt::format("--ram {}: expected a number of bytes, as 52000, 64K or 1M", text));
  return unit == "K" ? n * 1024 : unit == "M" ? n * 1024 * 1024 : n;
}

// The type of a target for the model's first result: what the loss takes.
Aval target_of(const std::string& loss, const Avals& results) {
  if (results.empty())
    throw ValueError("export", "the model has no result, so there is nothing to take a loss of");
  if (loss != "cross_entropy") return results[0];
  const Shape& s = results[0].shape;
  return {Dtype::I32, s.rank() == 0 ? s : s.without(s.rank() - 1)};
}

void print_check(const ExportCheck& c) {
  using Answer = ExportCheck::Run::Answer;
  for (const ExportCheck::Run& r : c.runs) {
    const char* answer = r.answer == Answer::Same     ? "same bits"
                         : r.answer == Answer::NotRun ? "not run"
                                                      : "DIFFERENT";
    std::cout << fmt::format("{:<12}{}", r.target, answer);
    if (r.code_bytes > 0) std::cout << fmt::format("  code {} bytes", r.code_bytes);
    if (r.instructions > 0) std::cout << fmt::format("  {} instructions per step", r.instructions);
    if (r.stack > 0) std::cout << fmt::format("  stack {} bytes", r.stack);
    std::cout << (r.text.empty() ? "" : "  " + r.text) << "\n";
  }
  std::cout << fmt::format("{} steps beside the native engine, {} of them finite\n", c.steps, c.finite_steps);
}

void run_export(ExportCommand& o, Status& status) {
  if (o.folder.empty() && !o.report && !o.check)
    throw ValueError("export", "nothing to do: give -o FOLDER, --report or --check");
  if (!o.ram.empty()) o.options.ram = bytes_option(o.ram);
  const ExportTarget& target = find_export_target(o.options.target);
  const std::shared_ptr<const LearningRule> rule = o.rule.make();
  const Model model = o.make_model();
  CompileOptions compile;
  compile.batch_size = o.batch;
  rule->configure(compile);
  LearnerOptions options;
  options.vjp_method = o.method.value_or(VjpMethod::SingleStep);
  options.trace_passes = o.trace_passes;
  const ETraceGraph graph = compile_etrace_graph(model, compile);
  optim::MakeOptions make;
  if (o.rate) make.learning_rate = *o.rate;
  const auto optimizer = optim::make(o.optimizer, make);
  const auto loss = loss::find(o.loss).function;
  const Aval wanted = target_of(o.loss, result_types(model));
  for (const TracePassWish& w :
       passes_for_devices(Learner(graph, *rule, options), loss, *optimizer, wanted)) {
    std::cout << fmt::format(
        "the trace {} is passed in the form rows, as --trace-pass {}=rows asks a learner to\n", w.trace,
        w.trace);
    options.trace_passes.push_back(w);
  }
  const Learner learner(graph, *rule, options);
  ExportedModel made = export_learner(learner, loss, *optimizer, wanted, o.options);
  if (o.report) std::cout << made.report.to_string();
  if (o.project) add_project(made, target);
  if (o.arduino) add_arduino(made);
  if (!o.folder.empty()) {
    const std::vector<std::string> kept = made.write(o.folder);
    for (const ExportedFile& f : made.files)
      std::cout << fmt::format("{}/{}{}\n", o.folder, f.path,
                               std::find(kept.begin(), kept.end(), f.path) == kept.end()
                                   ? ""
                                   : " was there, and is left as it is");
  }
  if (!o.check) return;
  ExportCheckOptions how;
  how.updates = o.updates;
  how.targets = {"c99"};
  if (o.options.target != "c99") how.targets.push_back(o.options.target);
  for (const std::string& b : o.boards) {
    if (b == "all") {
      how.targets.clear();
      for (const ExportTarget& t : export_targets()) how.targets.emplace_back(t.name);
    } else if (std::find(how.targets.begin(), how.targets.end(), b) == how.targets.end()) {
      how.targets.push_back(b);
    }
  }
  const ExportCheck found = check_export(learner, loss, *optimizer, wanted, o.options, how);
  print_check(found);
  if (!found.same() || !found.all_ran()) status.code = 1;
}

}  // namespace

void add_export(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("export", "write a learner as C for a microcontroller");
  auto o = std::make_shared<ExportCommand>();
  o->add_model_options(*verb);
  o->rule.add_to(*verb);
  add_method_option(*verb, o->method, "single-step");
  add_trace_pass_option(*verb, o->trace_passes);
  verb->add_option("--loss", o->loss, "of the first result against its target")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--optimizer", o->optimizer, "that updates the parameters at every step with a target")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--lr", o->rate,
                   "its learning rate, which the device may change (default: the optimiser's)")
      ->type_name("X")
      ->check(number_between(0, 1e6));
  verb->add_option("--target", o->options.target,
                   fmt::format("what it is for: {}", fmt::join(row_names(export_targets()), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("-o,--output", o->folder, "the folder to write to")->type_name("FOLDER");
  verb->add_option("--name", o->options.name, "of the files, and what names in them begin with")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_flag("--report", o->report,
                 "print what it needs: RAM, flash, stack, multiplications, instructions");
  verb->add_option("--ram", o->ram, "refuse what needs more static RAM, with what would help: 64K")
      ->type_name("BYTES");
  verb->add_flag("--skip-zeros", o->options.skip_zeros,
                 "products leave out rows whose factor is 0, as silent neurons have: the same bits");
  verb->add_flag("--libm", o->options.libm, "allow functions of the C library, whose last bits are its own");
  verb->add_flag("--project", o->project,
                 "with an example program, Makefile, startup code and linker script");
  verb->add_flag("--arduino", o->arduino, "with an Arduino library folder");
  verb->add_flag("--check", o->check, "compile and run it beside the native engine and compare all bits");
  verb->add_option("--boards", o->boards, "where --check runs it, beside this machine: targets, or all")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--updates", o->updates, "of --check")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, std::int64_t{1000000}))
      ->capture_default_str();
  verb->footer([] {
    return help_table("Targets", export_targets()) + "\n" + rules_short_help() + "\n" +
           help_table("Losses", loss::all());
  });
  verb->callback([o, &status] { run_export(*o, status); });
}

}  // namespace etrace::cli
