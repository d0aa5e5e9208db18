// Models and sequences to measure on; see the header.
#include "cli/model_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "cli/option_values.h"
#include "etrace/error.h"
#include "etrace/expected.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "train/sequence.h"

namespace etrace::cli {

namespace {

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

bool ModelRun::carries_sequences(const Model& m) const {
  const ExpectedRun* carried = train::reference_run(m);
  return carried != nullptr && carried->targets.defined();
}

Arrays ModelRun::sequences(const Model& m) const {
  if (!carries_sequences(m)) return random_sequences(m, *this);
  const ExpectedRun* carried = train::reference_run(m);
  Arrays out = to_arrays(*carried->args);
  out.push_back(carried->targets);
  const std::int64_t length = carried->targets.shape()[0];
  if (!steps) return out;
  if (*steps > length)
    throw ValueError(stage, fmt::format("--steps {}, but the file carries a sequence of {}", *steps, length));
  for (Array& a : out) a = slice_axis(a, 0, 0, *steps);
  return out;
}

std::string ModelRun::about_data() const {
  if (!std::filesystem::is_directory(model)) return {};
  return fmt::format("{}: its parameters, on random inputs and targets in place of its data\n", model);
}

StepFunction ModelRun::step() const {
  const auto function = loss::find(loss).function;
  return [function](StepCall& call, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{function(call(args)[0], s.back())};
  };
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
      ->check(number_at_least(0));
}

}  // namespace etrace::cli
