// etrace verify MODEL: the gradient of a rule against BPTT, per parameter, window length and lag.
#include "etrace/verify.h"
#include "etrace/expected.h"

#include <fmt/format.h>

#include <functional>
#include <iostream>

#include "cli/engine.h"
#include "cli/help.h"
#include "cli/load_model.h"
#include "cli/memory_hint.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/rule_option.h"
#include "cli/saved_parameters.h"
#include "cli/sequence.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "module/parameter_file.h"

namespace etrace::cli {

namespace {

struct VerifyArguments {
  std::string model, dtype, html, loss = "mse", load, backend = "interpreter";
  RuleArguments rule;
  std::optional<std::int64_t> steps, batch;
  std::vector<std::int64_t> windows, sizes;
  std::int64_t lags = 32;
  std::uint64_t seed = 0;
  double scale = 1.0;
  bool json = false, finite_differences = false, rtrl = false;
};

constexpr std::int64_t kMost = std::int64_t{1} << 20;  // of steps and samples

Dtype dtype_named(const std::string& text) { return text == "f32" ? Dtype::F32 : Dtype::F64; }

// A built-in model; of the sizes that were given, or that the file of --load says.
Model builtin_model(const VerifyArguments& o, const std::optional<TensorFile>& loaded) {
  ModelOptions options;
  options.dtype = o.dtype.empty() ? Dtype::F64 : dtype_named(o.dtype);
  options.batch = o.batch;
  options.seed = o.seed;
  options.sizes = o.sizes;
  if (loaded && o.sizes.empty()) SavedSettings(*loaded, o.load).sizes(options.sizes);
  const ReadyModel ready = make_model(o.model, options);
  return trace_step(*ready.module, ready.example, o.model).model;
}

Model model_of(const VerifyArguments& o) {
  const bool built_in = find_builtin_model(o.model) != nullptr;
  if (!built_in && (!o.dtype.empty() || o.batch || !o.sizes.empty()))
    throw ValueError("verify",
                     "--dtype, --batch and --sizes are for built-in models; a model file has its own types");
  std::optional<TensorFile> loaded;
  if (!o.load.empty()) loaded = read_parameter_file(o.load);
  Model model = built_in ? builtin_model(o, loaded) : load_model(o.model);
  if (loaded) take_parameters(model, *loaded, o.load);
  return model;
}

Array random_sequence(const Array& key, std::int64_t steps, const Aval& each, double scale) {
  const Shape shape = each.shape.with_front(steps);
  if (is_floating(each.dtype)) return random::normal(key, shape, each.dtype) * scale;
  if (each.dtype == Dtype::Bool) return random::bernoulli(key, 0.5, shape);
  return random::randint(key, shape, 0, 2, each.dtype);
}

// Labels for a loss that wants classes, else numbers like the result.
Array random_targets(const Aval& result, const VerifyArguments& o,
                     const std::function<Array(const Aval&, double)>& next) {
  if (o.loss != "cross_entropy" || result.shape.is_scalar()) return next(result, 1.0);
  return argmax(next(result, 1.0));
}

// One sequence per argument, then the targets of the first result.
Arrays random_sequences(const Model& m, const VerifyArguments& o) {
  const std::int64_t steps = o.steps.value_or(20);
  Array key = random::key(o.seed);
  const auto next = [&](const Aval& each, double scale) {
    key = random::fold_in(key, Array(1));
    return random_sequence(key, steps, each, scale);
  };
  Arrays out;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::Arg) {
      const auto at = static_cast<std::size_t>(m.inputs[i].index);
      out.resize(std::max(out.size(), at + 1));
      out[at] = next(m.program.jaxpr.invars[i].aval, o.scale);
    }
  for (std::size_t i = 0; i < m.outputs.size(); ++i)
    if (m.outputs[i].role == Role::Out && m.outputs[i].index == 0) {
      out.push_back(random_targets(aval_of(m.program.jaxpr.outs[i]), o, next));
      return out;
    }
  throw ValueError("verify", "the model has no result, so there is nothing to take a loss of");
}

Arrays sequences_of(const Model& m, const VerifyArguments& o) {
  const ExpectedRun* carried = reference_run(m);
  if (carried == nullptr || !carried->targets.defined()) return random_sequences(m, o);
  Arrays out = to_arrays(*carried->args);
  out.push_back(carried->targets);
  const std::int64_t length = carried->targets.shape()[0];
  if (!o.steps) return out;
  if (*o.steps > length)
    throw ValueError("verify",
                     fmt::format("--steps {}, but the file carries a sequence of {}", *o.steps, length));
  for (Array& a : out) a = slice_axis(a, 0, 0, *o.steps);
  return out;
}

void run_verify(const VerifyArguments& o, Status& status) {
  require_writable("verify", {"--html", o.html});
  require_different_files("verify", {{"MODEL", o.model}, {"--html", o.html}});
  require_different_files("verify", {{"--load", o.load}, {"--html", o.html}});
  const std::shared_ptr<const LearningRule> rule = o.rule.make();
  const auto loss = loss::find(o.loss).function;
  const Model model = model_of(o);
  const Arrays sequences = sequences_of(model, o);
  const StepFunction f = [loss](StepCall& step, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{loss(step(args)[0], s.back())};
  };
  VerifyOptions options;
  options.windows = o.windows;
  options.lags = o.lags;
  options.backend = o.backend;
  options.finite_differences = o.finite_differences;
  options.full_rtrl = o.rtrl;
  const VerifyReport report = verify(model, *rule, sequences, f, options);
  if (!o.html.empty())
    write_output(o.html, report.to_html());
  else
    std::cout << (o.json ? report.to_json() : report.to_string());
  if (report.met()) return;
  status.code = 1;
  if (!o.html.empty())
    for (const std::string& line : report.failures()) std::cerr << "NOT MET: " << line << "\n";
}

void add_model_options(CLI::App& verb, VerifyArguments& o) {
  verb.add_option("MODEL", o.model, model_doc())->required();
  verb.add_option(
          "--load", o.load,
          "take the parameters from FILE.safetensors or FILE.npz; a file that `etrace train --save` wrote "
          "says the sizes of a built-in model, too")
      ->type_name("FILE");
  verb.add_option("--sizes", o.sizes,
                  "of a built-in model: features of input, hidden layers, output, as in 3,8,2")
      ->type_name("N,N,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(count_from(1));
  verb.add_option("--batch", o.batch, "samples of a built-in model (default: one, without a batch axis)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, kMost));
  verb.add_option("--dtype", o.dtype, "of a built-in model: f64 or f32 (default: f64)")
      ->type_name("TYPE")
      ->check(one_of({"f64", "f32"}));
  verb.add_option("--seed", o.seed, "of parameters and random sequences (default: 0)")
      ->type_name("N")
      ->check(seed_number());
}

void add_measure_options(CLI::App& verb, VerifyArguments& o) {
  verb.add_option("--steps", o.steps, "of the sequence (default: 20, or all that the file carries)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, kMost));
  verb.add_option("--window", o.windows,
                  "steps per window, several are possible (default: 1, 2, 5, half, all)")
      ->type_name("N …")
      ->check(whole_number(std::int64_t{1}, kMost));
  verb.add_option("--lags", o.lags, "how far back credit is followed (default: 32; 0: not at all)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{0}, kMost));
  verb.add_option("--loss", o.loss, "of the first result against its target, see below (default: mse)")
      ->type_name("NAME");
  verb.add_option("--scale", o.scale, "standard deviation of random inputs (default: 1)")
      ->type_name("X")
      ->check(number());
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
  add_model_options(*verb, *o);
  o->rule.add_to(*verb);
  add_measure_options(*verb, *o);
  verb->footer([] { return rules_help() + "\n" + help_table("Losses", loss::all()); });
  verb->callback([o, &status] {
    with_memory_hint("--steps, --batch and --sizes make it smaller, as does --lags 0",
                     [&] { run_verify(*o, status); });
  });
}

}  // namespace etrace::cli
