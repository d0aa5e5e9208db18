// Step functions as programs: the model's results are inputs, its arguments outputs.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "core/flow.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/plan.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "learn/plan/misfit.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "module/state_reads.h"

namespace etrace {

namespace {
Aval with_time(const Aval& a, std::int64_t steps) { return {a.dtype, a.shape.with_front(steps)}; }
}  // namespace

Arrays StepCall::operator()(std::span<const StepInput> args) {
  if (called_)
    throw CompilationError("step_fn", "calls the learner a second time; it must do so exactly once per step");
  called_ = true;
  const Avals& types = types_;
  if (args.size() != types.size())
    throw ValueError("step_fn", fmt::format("calls the learner with {} arguments, but the model takes {}",
                                            args.size(), types.size()));
  if ((!window_ || plain_) && multi_step_length(args))
    throw NotSupportedError("step_fn",
                            "MultiStepData in a call of one step; use a multi-step learner and a chunk_size");
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool many = std::holds_alternative<MultiStepData>(args[i]);
    const Aval expected = many ? with_time(types[i], *window_) : types[i];
    const Array& x = value_of(args[i]);
    if (x.aval() != expected)
      throw ValueError("step_fn",
                       fmt::format("argument {} of the model for {} {}; the first axis of a sequence is time",
                                   i, many ? "a window" : "one step", misfit(x.aval(), expected)));
    args_.push_back(plain_ ? expand_dims(x, {0}) : x);
    multi_step_.push_back(many || plain_);
  }
  if (window_ && !plain_ && multi_step_length(args) != window_)
    throw ValueError("step_fn",
                     fmt::format("a window of {} steps must reach the model as MultiStepData", *window_));
  if (!plain_) return outputs_;
  Arrays out;
  for (const Array& y : outputs_) out.push_back(squeeze(y, {0}));
  return out;
}

Array StepCall::operator()(const StepInput& x) {
  const Arrays out = (*this)(std::span<const StepInput>(&x, 1));
  if (out.size() != 1)
    throw ValueError("step_fn",
                     fmt::format("the model has {} results; call it with a list of arguments to get "
                                 "them all",
                                 out.size()));
  return out[0];
}

namespace {

void check_loss(const LossAndAux& r, const Shape& expected, bool per_sample) {
  if (r.loss.defined() && r.loss.shape() == expected && is_floating(r.loss.dtype())) return;
  const std::size_t rank = expected.rank() - (per_sample ? 1 : 0);
  std::string wanted =
      rank == 0 ? "scalar" : fmt::format("vector of {}, one per step of the window", expected[0]);
  if (per_sample)
    wanted =
        rank == 0
            ? fmt::format("vector of {}, one per sample, since the weights are per sample", expected[0])
            : fmt::format("array {}, one per step of the window and sample, since the weights are per sample",
                          to_string(expected));
  throw ValueError("step_fn", fmt::format("the loss has type {}, expected a floating {}",
                                          r.loss.defined() ? to_string(r.loss.aval()) : "none", wanted));
}

// The first argument of the model that is computed from these inputs of the program.
std::optional<std::size_t> argument_from(const StepProgram& p, std::size_t first, std::size_t last) {
  const Jaxpr& jaxpr = p.program.jaxpr;
  VarIds inputs;
  for (std::size_t i = first; i < last; ++i) inputs.insert(jaxpr.invars[i].id);
  const Reached from = forward(jaxpr, std::move(inputs));
  for (std::size_t i = 0; i < p.num_args; ++i)
    if (from.holds(jaxpr.outs[i])) return i;
  return std::nullopt;
}

// Behind slices and results stand all parameters of the model: those stay that something reads.
void keep_params_read(StepProgram& p, std::size_t first) {
  Jaxpr& jaxpr = p.program.jaxpr;
  std::unordered_set<std::uint64_t> read;
  const auto note = [&](const Atom& a) {
    if (const Var* v = as_var(a)) read.insert(v->id);
  };
  for (const Eqn& eqn : jaxpr.eqns) std::for_each(eqn.in.begin(), eqn.in.end(), note);
  std::for_each(jaxpr.outs.begin(), jaxpr.outs.end(), note);
  std::vector<Var> kept(jaxpr.invars.begin(), jaxpr.invars.begin() + static_cast<std::ptrdiff_t>(first));
  for (std::size_t i = first; i < jaxpr.invars.size(); ++i) {
    if (!read.contains(jaxpr.invars[i].id)) continue;
    p.params.push_back(i - first);
    kept.push_back(jaxpr.invars[i]);
  }
  jaxpr.invars = std::move(kept);
}

}  // namespace

StepProgram StepProgram::record(const Border& border, const StepFunction& f, std::span<const Aval> slices,
                                std::optional<std::int64_t> window, bool plain,
                                std::optional<std::int64_t> samples) {
  Avals types;
  for (const Aval& a : slices) types.push_back(plain ? with_time(a, 1) : a);
  for (const Aval& a : border.results) types.push_back(window ? with_time(a, *window) : a);
  const std::size_t first_param = types.size();
  for (std::size_t i = 0; i < border.model.inputs.size(); ++i)
    if (border.model.inputs[i].role == Role::Param)
      types.push_back(border.model.program.jaxpr.invars[i].aval);
  StepProgram out;
  out.num_slices = slices.size();
  out.window = window;
  out.samples = samples;
  Shape loss_shape = samples ? Shape{*samples} : Shape{};
  if (window && !plain) loss_shape = loss_shape.with_front(*window);
  const Function whole = [&](ArraySpan in) {
    StepCall call;
    call.types_ = border.arguments;
    call.window_ = window;
    call.plain_ = plain;
    call.params_ = to_list(in.subspan(first_param));
    call.outputs_ = to_list(in.subspan(slices.size(), first_param - slices.size()));
    Arrays given = to_list(in.first(slices.size()));
    if (plain)
      for (Array& a : given) a = squeeze(a, {0});
    LossAndAux r;
    {
      [[maybe_unused]] StateReads reads(border.model, call.params_);
      r = f(call, given);
    }
    if (!call.called_)
      throw CompilationError("step_fn", "did not call the learner; it must do so exactly once per step");
    check_loss(r, loss_shape, samples.has_value());
    if (plain) r.loss = expand_dims(r.loss, {0});
    Arrays outs = call.args_;
    out.num_args = outs.size();
    out.multi_step = call.multi_step_;
    outs.push_back(r.loss);
    outs.insert(outs.end(), r.aux.begin(), r.aux.end());
    return outs;
  };
  out.program = make_jaxpr(whole, types);
  // What the model is called with must be there before it is called.
  if (const auto i = argument_from(out, out.num_slices, first_param))
    throw CompilationError("step_fn",
                           fmt::format("argument {} of the model depends on the model's own result", *i));
  if (const auto i = argument_from(out, first_param, types.size()))
    throw NotSupportedError(
        "step_fn", fmt::format("argument {} of the model depends on a parameter that the function reads "
                               "itself; compute this in the model's update, where it is learned",
                               *i));
  keep_params_read(out, first_param);
  return out;
}

StepProgram StepProgram::trace(const ETraceGraph& graph, const StepFunction& f, std::span<const Aval> slices,
                               std::optional<std::int64_t> window, std::optional<std::int64_t> samples) {
  return record({graph.module_info.model, argument_types(graph), result_types(graph)}, f, slices, window,
                false, samples);
}

StepProgram StepProgram::trace(const Model& model, const StepFunction& f, std::span<const Aval> slices) {
  return record({model, argument_types(model), result_types(model)}, f, slices, std::nullopt, false,
                std::nullopt);
}

StepProgram StepProgram::trace_unit_window(const ETraceGraph& graph, const StepFunction& f,
                                           std::span<const Aval> slices,
                                           std::optional<std::int64_t> samples) {
  return record({graph.module_info.model, argument_types(graph), result_types(graph)}, f, slices, 1, true,
                samples);
}

Arrays StepProgram::arguments(ArraySpan slices) const {
  Arrays in(slices.begin(), slices.end());
  for (std::size_t i = num_slices; i < program.jaxpr.invars.size(); ++i)
    in.push_back(zeros_of(program.jaxpr.invars[i].aval));
  Mask used(program.jaxpr.outs.size(), false);
  for (std::size_t i = 0; i < num_args; ++i) used[i] = true;
  return eval_jaxpr(eliminate_dead_code(program, used), in);
}

Arrays StepProgram::own_params(ArraySpan all) const {
  Arrays out;
  for (const std::size_t i : params) out.push_back(all[i]);
  return out;
}

LossAndAux StepProgram::loss(ArraySpan slices, ArraySpan outputs, ArraySpan all_params) const {
  return loss_with(slices, outputs, own_params(all_params));
}

LossAndAux StepProgram::loss_with(ArraySpan slices, ArraySpan outputs, ArraySpan own) const {
  Mask used(program.jaxpr.outs.size(), true);
  for (std::size_t i = 0; i < num_args; ++i) used[i] = false;
  const Arrays out = eval_jaxpr(eliminate_dead_code(program, used), joined({slices, outputs, own}));
  return {out[0], Arrays(out.begin() + 1, out.end())};
}

bool same(const StepProgram& a, const StepProgram& b) {
  return a.params == b.params && a.window == b.window && equal(a.program, b.program);
}

StepFunction in_windows(StepProgram one) {
  return [step = std::move(one)](StepCall& model, ArraySpan slices) -> LossAndAux {
    std::vector<StepInput> args;
    for (const Array& a : vmap([&](ArraySpan s) { return step.arguments(s); })(slices))
      args.emplace_back(MultiStepData{a});
    Arrays all(slices.begin(), slices.end());
    for (const Array& y : model(args)) all.push_back(y);
    const Function loss = [&](ArraySpan a) {
      return Arrays{step.loss(a.first(step.num_slices), a.subspan(step.num_slices), model.params_).loss};
    };
    return {vmap(loss)(all)[0]};
  };
}

}  // namespace etrace
