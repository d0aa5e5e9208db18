// Models and sequences to measure on; see the header.
#include "cli/model_run.h"

#include <fmt/format.h>

#include <functional>

#include "cli/load_model.h"
#include "cli/option_values.h"
#include "cli/saved_parameters.h"
#include "cli/sequence.h"
#include "etrace/error.h"
#include "etrace/expected.h"
#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "module/parameter_file.h"

namespace etrace::cli {

namespace {

constexpr std::int64_t kMostOfARun = std::int64_t{1} << 20;  // of steps and samples

Dtype dtype_named(const std::string& text) { return text == "f32" ? Dtype::F32 : Dtype::F64; }

// A built-in model; of the sizes that were given, or that the file of --load says.
Model builtin_model(const ModelRun& o, const std::optional<TensorFile>& loaded) {
  ModelOptions options;
  options.dtype = o.dtype.empty() ? Dtype::F64 : dtype_named(o.dtype);
  options.batch = o.batch;
  options.seed = o.seed;
  options.sizes = o.sizes;
  if (loaded && o.sizes.empty()) SavedSettings(*loaded, o.load).sizes(options.sizes);
  const ReadyModel ready = etrace::make_model(o.model, options);
  return trace_step(*ready.module, ready.example, o.model).model;
}

Array random_sequence(const Array& key, std::int64_t steps, const Aval& each, double scale) {
  const Shape shape = each.shape.with_front(steps);
  if (is_floating(each.dtype)) return random::normal(key, shape, each.dtype) * scale;
  if (each.dtype == Dtype::Bool) return random::bernoulli(key, 0.5, shape);
  return random::randint(key, shape, 0, 2, each.dtype);
}

// Labels for a loss that wants classes, else numbers like the result.
Array random_targets(const Aval& result, const ModelRun& o,
                     const std::function<Array(const Aval&, double)>& next) {
  if (o.loss != "cross_entropy" || result.shape.is_scalar()) return next(result, 1.0);
  return argmax(next(result, 1.0));
}

// One sequence per argument, then the targets of the first result.
Arrays random_sequences(const Model& m, const ModelRun& o) {
  const std::int64_t steps = o.steps.value_or(o.default_steps);
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
  throw ValueError(o.stage, "the model has no result, so there is nothing to take a loss of");
}

}  // namespace

Model ModelRun::make_model() const {
  const bool built_in = find_builtin_model(model) != nullptr;
  if (!built_in && (!dtype.empty() || batch || !sizes.empty()))
    throw ValueError(stage,
                     "--dtype, --batch and --sizes are for built-in models; a model file has its own types");
  std::optional<TensorFile> loaded;
  if (!load.empty()) loaded = read_parameter_file(load);
  Model made = built_in ? builtin_model(*this, loaded) : load_model(model);
  if (loaded) take_parameters(made, *loaded, load);
  return made;
}

Arrays ModelRun::sequences(const Model& m) const {
  const ExpectedRun* carried = reference_run(m);
  if (carried == nullptr || !carried->targets.defined()) return random_sequences(m, *this);
  Arrays out = to_arrays(*carried->args);
  out.push_back(carried->targets);
  const std::int64_t length = carried->targets.shape()[0];
  if (!steps) return out;
  if (*steps > length)
    throw ValueError(stage, fmt::format("--steps {}, but the file carries a sequence of {}", *steps, length));
  for (Array& a : out) a = slice_axis(a, 0, 0, *steps);
  return out;
}

StepFunction ModelRun::step() const {
  const auto function = loss::find(loss).function;
  return [function](StepCall& call, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{function(call(args)[0], s.back())};
  };
}

void ModelRun::add_model_options(CLI::App& verb) {
  verb.add_option("MODEL", model, model_doc())->required();
  verb.add_option(
          "--load", load,
          "take the parameters from FILE.safetensors or FILE.npz; a file that `etrace train --save` wrote "
          "says the sizes of a built-in model, too")
      ->type_name("FILE");
  verb.add_option("--sizes", sizes,
                  "of a built-in model: features of input, hidden layers, output, as in 3,8,2")
      ->type_name("N,N,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(count_from(1));
  verb.add_option("--batch", batch, "samples of a built-in model (default: one, without a batch axis)")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, kMostOfARun));
  verb.add_option("--dtype", dtype, "of a built-in model: f64 or f32 (default: f64)")
      ->type_name("TYPE")
      ->check(one_of({"f64", "f32"}));
  verb.add_option("--seed", seed, "of parameters and random sequences (default: 0)")
      ->type_name("N")
      ->check(seed_number());
}

void ModelRun::add_sequence_options(CLI::App& verb) {
  verb.add_option("--steps", steps,
                  fmt::format("of the sequence (default: {}, or all that the file carries)", default_steps))
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, kMostOfARun));
  verb.add_option("--loss", loss, "of the first result against its target, see below (default: mse)")
      ->type_name("NAME");
  verb.add_option("--scale", scale, "standard deviation of random inputs (default: 1)")
      ->type_name("X")
      ->check(number());
}

}  // namespace etrace::cli
