// etrace summary MODEL: modules, shapes, parameters, states and bytes, and what rules keep for them.
#include "etrace/summary.h"

#include <iostream>

#include "cli/load_model.h"
#include "cli/option_values.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/models.h"

namespace etrace::cli {

namespace {

constexpr std::int64_t kMostCounted = std::int64_t{1} << 20;  // samples, features

struct SummaryArguments {
  std::string model;
  std::optional<std::int64_t> batch;
  std::vector<std::int64_t> sizes;
  bool json = false;
};

Summary summary_of(const SummaryArguments& o) {
  if (find_builtin_model(o.model) != nullptr) {
    const ReadyModel ready = make_model(o.model, {.sizes = o.sizes, .batch = o.batch});
    return summary(*ready.module, ready.example[0]);
  }
  const Model model = load_model(o.model);
  if (o.batch || !o.sizes.empty())
    throw ValueError("summary", "--batch and --sizes are for built-in models; a model file has its own");
  return summary(model);
}

}  // namespace

void add_summary(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand(
      "summary", "a table of a model's modules, parameters, states, bytes, and trace memory per rule");
  auto o = std::make_shared<SummaryArguments>();
  verb->add_option("MODEL", o->model, model_doc())->required();
  verb->add_option("--batch", o->batch, "samples of a built-in model (default: one, without a batch axis)")
      ->type_name("N")
      ->check(whole_number<std::int64_t>(1, kMostCounted));
  verb->add_option("--sizes", o->sizes,
                   "of a built-in model: features of input, hidden layers, output, as in 3,8,2")
      ->type_name("N,N,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number<std::int64_t>(1, kMostCounted));
  verb->add_flag("--json", o->json, "for programs");
  verb->callback([o] {
    const Summary s = summary_of(*o);
    std::cout << (o->json ? s.to_json() : s.to_string());
  });
}

}  // namespace etrace::cli
