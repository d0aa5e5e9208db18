#include "learn/plan/model_steps.h"

#include "etrace/control.h"
#include "etrace/ops/numpy.h"
#include "io/step_outputs.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"

namespace etrace {

ModelSteps::ModelSteps(const Model& m) : model_(m) {
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    if (m.inputs[i].role == Role::Param) params_.push_back(i);
    if (is_state(m.inputs[i].role)) states_.push_back(i);
  }
}

ModelSteps::Step ModelSteps::step(ArraySpan params, ArraySpan states, ArraySpan args) const {
  Arrays in(model_.inputs.size());
  for (std::size_t k = 0; k < params.size(); ++k) in[params_[k]] = params[k];
  for (std::size_t k = 0; k < states.size(); ++k) in[states_[k]] = states[k];
  for (std::size_t i = 0; i < in.size(); ++i)
    if (model_.inputs[i].role == Role::Arg) in[i] = args[static_cast<std::size_t>(model_.inputs[i].index)];
  const Arrays out = eval_jaxpr(model_.program, in);
  return {new_states_of(model_, states, out), results_of(model_, out)};
}

ModelSteps::Step ModelSteps::run(ArraySpan params, ArraySpan states, ArraySpan args,
                                 std::int64_t steps) const {
  ScanResult all = scan(
      [&](ArraySpan now, ArraySpan xs) -> ScanResult {
        Step s = step(params, now, xs);
        return {std::move(s.states), std::move(s.results)};
      },
      to_list(states), to_list(args), {.length = steps});
  return {std::move(all.carry), std::move(all.ys)};
}

ModelSteps::Scored ModelSteps::step(ArraySpan params, ArraySpan states, const StepProgram& f,
                                    ArraySpan slices) const {
  Step s = step(params, states, f.arguments(slices));
  LossAndAux l = f.loss(slices, s.results, params);
  return {l.loss, std::move(l.aux), std::move(s.states)};
}

ModelSteps::Scored ModelSteps::run(ArraySpan params, ArraySpan states, const StepProgram& f, ArraySpan slices,
                                   std::int64_t steps, bool param_per_step) const {
  if (f.window) {
    ETRACE_CHECK(!param_per_step);
    Arrays args = f.arguments(slices);
    for (std::size_t i = 0; i < args.size(); ++i)
      if (!f.multi_step[i])
        args[i] = broadcast_to(expand_dims(args[i], {0}), args[i].shape().with_front(steps));
    Step s = run(params, states, args, steps);
    LossAndAux l = f.loss(slices, s.results, params);
    return {l.loss, std::move(l.aux), std::move(s.states)};
  }
  const Arrays xs = joined({param_per_step ? params : ArraySpan(), slices});
  ScanResult all = scan(
      [&](ArraySpan now, ArraySpan x) -> ScanResult {
        const ArraySpan p = param_per_step ? take_front(x, params.size()) : params;
        Scored s = step(p, now, f, x);
        return {std::move(s.states), joined({Arrays{s.losses}, s.aux})};
      },
      to_list(states), xs, {.length = steps});
  return {all.ys[0], {all.ys.begin() + 1, all.ys.end()}, std::move(all.carry)};
}

}  // namespace etrace
