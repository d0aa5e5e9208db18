// etrace check FILE…: does what model files ask for and compares with what they expect; one line per file.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <new>

#include "cli/engine.h"
#include "cli/option_values.h"
#include "cli/reference_check.h"
#include "cli/verbs.h"
#include "etrace/error.h"

namespace etrace::cli {

namespace {

enum class Verdict { Passed, Failed, Skipped };

// Runs the stages on one file and prints its line.
Verdict check_file(const std::string& path, const std::vector<Stage>& stages, const CheckOptions& options) {
  std::string label = path, passed, skipped;
  try {
    const Model model = read_model_file(path);
    if (!model.name.empty()) label = model.name;
    if (label != std::filesystem::path(path).stem()) label = fmt::format("{} ({})", label, path);
    for (const Stage stage : stages) {
      const StageResult r = run_stage(model, stage, options);
      if (r.failure) {
        std::cout << fmt::format("FAIL {}: {}: {}\n", label, name(stage), *r.failure);
        return Verdict::Failed;
      }
      if (r.skipped)
        skipped += fmt::format("{}{}: {}", skipped.empty() ? "" : "; ", name(stage), *r.skipped);
      else
        passed += fmt::format("{}{}", passed.empty() ? "" : ", ", name(stage));
    }
  } catch (const std::bad_alloc&) {
    std::cout << fmt::format("FAIL {}: out of memory\n", label);
    return Verdict::Failed;
  } catch (const Error& e) {
    std::cout << fmt::format("FAIL {}: {}\n", label, e.what());
    return Verdict::Failed;
  }
  if (skipped.empty()) {
    std::cout << fmt::format("ok {}\n", label);
    return Verdict::Passed;
  }
  std::cout << fmt::format("skip {}: {}{}\n", label, skipped,
                           passed.empty() ? "" : " (passed: " + passed + ")");
  return Verdict::Skipped;
}

}  // namespace

void add_check(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("check", "run model files and compare with what they expect");
  auto files = std::make_shared<std::vector<std::string>>();
  auto stage_names = std::make_shared<std::vector<std::string>>();
  auto options = std::make_shared<CheckOptions>();
  verb->add_option("FILE", *files, "model files")->required();
  verb->add_option("--stage", *stage_names, "forward, bptt, graph or learn (default: all)")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"forward", "bptt", "graph", "learn"}));
  verb->add_option("--compat", options->compat, "reproduce the numbers of this system: braintrace")
      ->type_name("NAME")
      ->check(one_of({"braintrace"}));
  add_backend_option(*verb, options->backend);
  verb->callback([files, stage_names, options, &status] {
    std::vector<Stage> stages;
    for (const Stage s : kAllStages)
      if (stage_names->empty() || std::count(stage_names->begin(), stage_names->end(), name(s)) > 0)
        stages.push_back(s);
    std::size_t passed = 0, failed = 0, skipped = 0;
    for (const std::string& f : *files) {
      const Verdict v = check_file(f, stages, *options);
      passed += v == Verdict::Passed;
      failed += v == Verdict::Failed;
      skipped += v == Verdict::Skipped;
    }
    std::cout << fmt::format("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
    if (failed > 0) status.code = 1;
  });
}

}  // namespace etrace::cli
