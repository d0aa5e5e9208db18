// etrace summary MODEL: modules, shapes, parameters, states and bytes, and what rules keep for them.
#include "etrace/summary.h"

#include <iostream>

#include "cli/model_choice.h"
#include "cli/verbs.h"

namespace etrace::cli {

namespace {

Summary summary_of(const ModelChoice& o) {
  const std::optional<ReadyModel> ready = o.builtin();
  return ready ? summary(*ready->module, ready->example[0]) : summary(o.make_model());
}

}  // namespace

void add_summary(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand(
      "summary", "a table of a model's modules, parameters, states, bytes, and trace memory per rule");
  auto o = std::make_shared<ModelChoice>("summary", Dtype::F32);
  auto json = std::make_shared<bool>(false);
  o->add_model_options(*verb);
  verb->add_flag("--json", *json, "for programs");
  verb->callback([o, json] {
    const Summary s = summary_of(*o);
    std::cout << (*json ? s.to_json() : s.to_string());
  });
}

}  // namespace etrace::cli
