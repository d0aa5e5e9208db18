// etrace verify MODEL: the gradient of a rule against BPTT, per parameter, window length and lag.
#include "etrace/verify.h"

#include <fmt/format.h>

#include <functional>
#include <iostream>

#include "base/file.h"
#include "cli/load_model.h"
#include "cli/rule_option.h"
#include "cli/sequence.h"
#include "cli/verbs.h"
#include "etrace/error.h"
#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace::cli {

namespace {

struct VerifyArguments {
  std::string model, dtype, html, loss = "mse";
  RuleArguments rule;
  std::optional<std::int64_t> steps, batch;
  std::vector<std::int64_t> windows;
  std::int64_t lags = 32;
  std::uint64_t seed = 0;
  double scale = 1.0;
  bool json = false, finite_differences = false, rtrl = false;
};

Dtype dtype_named(const std::string& text) { return text == "f32" ? Dtype::F32 : Dtype::F64; }

Model model_of(const VerifyArguments& o) {
  if (find_builtin_model(o.model) == nullptr) {
    if (!o.dtype.empty() || o.batch)
      throw ValueError("verify",
                       "--dtype and --batch are for built-in models; a model file has its own types");
    return load_model(o.model);
  }
  ModelOptions options;
  options.dtype = o.dtype.empty() ? Dtype::F64 : dtype_named(o.dtype);
  options.batch = o.batch;
  options.seed = o.seed;
  const ReadyModel ready = make_model(o.model, options);
  return trace_step(*ready.module, ready.example, o.model).model;
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
  const std::shared_ptr<const LearningRule> rule = o.rule.make();
  const Model model = model_of(o);
  const Arrays sequences = sequences_of(model, o);
  const auto loss = loss::find(o.loss).function;
  const StepFunction f = [loss](StepCall& step, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{loss(step(args)[0], s.back())};
  };
  VerifyOptions options;
  options.windows = o.windows;
  options.lags = o.lags;
  options.finite_differences = o.finite_differences;
  options.full_rtrl = o.rtrl;
  const VerifyReport report = verify(model, *rule, sequences, f, options);
  if (!o.html.empty()) {
    write_file(o.html, report.to_html());
    std::cout << "wrote " << o.html << "\n";
  } else {
    std::cout << (o.json ? report.to_json() : report.to_string());
  }
  if (report.met()) return;
  status.code = 1;
  if (!o.html.empty())
    for (const std::string& line : report.failures()) std::cout << "NOT MET: " << line << "\n";
}

}  // namespace

void add_verify(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("verify", "compare the gradient of a learning rule with BPTT");
  auto o = std::make_shared<VerifyArguments>();
  verb->add_option("MODEL", o->model, "a model file, or a built-in model: " + model_names())->required();
  o->rule.add_to(*verb);
  verb->add_option("--steps", o->steps, "of the sequence (default: 20, or all that the file carries)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  verb->add_option("--window", o->windows,
                   "steps per window, several are possible (default: 1, 2, 5, half, all)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  verb->add_option("--lags", o->lags, "how far back credit is followed (default: 32; 0: not at all)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  verb->add_option("--batch", o->batch, "samples of a built-in model (default: one, without a batch axis)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  verb->add_option("--dtype", o->dtype, "of a built-in model: f64 or f32 (default: f64)")
      ->check(CLI::IsMember({"f64", "f32"}));
  verb->add_option("--loss", o->loss, "of the first result against its target (default: mse)");
  verb->add_option("--seed", o->seed, "of parameters and random sequences (default: 0)");
  verb->add_option("--scale", o->scale, "standard deviation of random inputs (default: 1)");
  auto* json = verb->add_flag("--json", o->json, "everything, for programs");
  verb->add_option("--html", o->html, "write one self-contained page with plots to this file")
      ->excludes(json);
  verb->add_flag("--finite-differences", o->finite_differences,
                 "also check BPTT itself by central differences");
  verb->add_flag("--rtrl", o->rtrl, "also check BPTT itself by full RTRL (small models)");
  verb->callback([o, &status] { run_verify(*o, status); });
}

}  // namespace etrace::cli
