#include "train/padding.h"

#include "etrace/error.h"
#include "etrace/learner.h"
#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "io/step_outputs.h"

namespace etrace::train {

Model with_padding(const Model& m, std::int64_t batch, Dtype dtype) {
  Avals types;
  for (const Var& v : m.program.jaxpr.invars) types.push_back(v.aval);
  types.push_back({dtype, Shape{batch}});
  const std::vector<std::optional<std::size_t>> places = state_outputs(m);
  const std::size_t count = m.inputs.size();
  Model out = m;
  out.expected = nullptr;
  out.program = make_jaxpr(
      [&](ArraySpan in) {
        Arrays values = eval_jaxpr(m.program, in.first(count));
        const Array moves = not_equal_to(in[count], 0.0);
        std::size_t state = 0;
        for (std::size_t i = 0; i < count; ++i) {
          if (!is_state(m.inputs[i].role)) continue;
          const auto place = places[state++];
          if (!place || !m.inputs[i].per_sample.value_or(false)) continue;
          Array each = moves;
          while (each.rank() < in[i].rank()) each = expand_dims(each, {-1});
          values[*place] = where(each, values[*place], in[i]);
        }
        return values;
      },
      types);
  InputRecord active;
  active.role = Role::Arg;
  active.index = static_cast<std::int64_t>(argument_types(m).size());
  out.inputs.push_back(active);
  return out;
}

// Asked of the rule itself, on a network of two units.
bool freezes_samples(const LearningRule& rule) {
  try {
    const ReadyModel tiny = make_model("gru", {.sizes = {1, 2, 2}, .batch = 2});
    Learner learner = compile(*tiny.module, rule, tiny.example, {.batch_size = 2, .backend = "interpreter"});
    if (rule.takes_modulator()) learner.set_modulator(ones({}));
    learner.etrace_grad(zeros({1, 2, 1}), zeros({1, 2, 2}), loss::mse,
                        {.mask = array({1.0, 0.0}, {1, 2}), .freeze = true});
  } catch (const NotSupportedError&) {
    return false;
  }
  return true;
}

}  // namespace etrace::train
