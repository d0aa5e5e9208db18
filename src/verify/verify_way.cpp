// Influence by value, through the equations of a step and on through the states; see the header.
#include "verify/verify_way.h"

#include <algorithm>
#include <unordered_set>

#include "control/loops.h"
#include "etrace/control.h"
#include "etrace/ops/elementwise.h"
#include "io/step_outputs.h"
#include "learn/traces/interface.h"

namespace etrace {

double unit_roundoff(Dtype t) {
  switch (t) {
    case Dtype::F64:
      return 2.2e-16;
    case Dtype::F32:
      return 1.2e-7;
    case Dtype::F16:
      return 9.8e-4;
    default:
      return 7.8e-3;  // bf16
  }
}

double exact_below(Dtype t) {
  switch (t) {
    case Dtype::F64:
      return 1e-9;
    case Dtype::F32:
      return 1e-4;
    case Dtype::F16:
      return 2e-2;
    default:
      return 1e-1;
  }
}

std::optional<double> differences_below(Dtype t) {
  if (t == Dtype::F64) return 1e-6;
  if (t == Dtype::F32) return 5e-2;
  return std::nullopt;
}

namespace {

constexpr std::string_view kOwnDerivative =
    "spikes or other steps with a derivative of their own lie on its way, which differences do not see";
constexpr std::string_view kStopped =
    "a stop_gradient lies on its way: differences see the influence that it takes out of the gradient";

class InfluenceWalk {
 public:
  InfluenceWalk(const Model& model, const Jaxpr& program, std::size_t input, std::size_t leaf)
      : model_(model), program_(program), leaf_(leaf) {
    reach(program.invars[input]);
    // A state that is reached at the end of a step is there at the start of the next.
    for (std::size_t before = 0; before != seen_.size();) {
      before = seen_.size();
      cross_all(program);
      carry_over();
    }
  }

  // From the model's results, and from the parameter itself, on to the loss.
  void enter(const StepProgram& step) {
    std::size_t result = step.num_slices;
    for (const std::size_t o : result_outputs(model_)) {
      const Var& in = step.program.jaxpr.invars[result++];
      if (reached(program_.outs[o])) reach(in);
    }
    for (const std::size_t p : step.params) {
      const Var& in = step.program.jaxpr.invars[result++];
      if (p == leaf_) reach(in);
    }
    cross_all(step.program.jaxpr);
    if (way.differences_exempt.empty() && !differences_below(way.narrowest))
      way.differences_exempt =
          std::string(name(way.narrowest)) + " values lie on its way, too coarse for differences";
  }

  LeafWay way;

 private:
  bool reached(const Atom& a) const {
    const Var* v = as_var(a);
    return v != nullptr && seen_.count(v->id) != 0;
  }
  void reach(const Var& v) {
    if (!is_floating(v.aval.dtype)) return;
    seen_.insert(v.id);
    if (unit_roundoff(v.aval.dtype) > unit_roundoff(way.narrowest)) way.narrowest = v.aval.dtype;
  }
  void cross_all(const Jaxpr& program) {
    for (const Eqn& eqn : program.eqns) {
      if (std::none_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return reached(a); })) continue;
      look_at(eqn);
      for (const Var& v : eqn.out) reach(v);
    }
  }

  // The equation and all that its bodies hold.
  void look_at(const Eqn& eqn) {
    if (eqn.prim == &heaviside_surrogate_gradient_p || has_own_derivative(eqn))
      way.differences_exempt = kOwnDerivative;
    else if (eqn.prim->spec.ends_derivatives && way.differences_exempt.empty())
      way.differences_exempt = kStopped;
    for (const JaxprPtr& body : nested_jaxprs(eqn))
      for (const Eqn& inner : body->jaxpr.eqns) {
        look_at(inner);
        for (const Var& v : inner.out) reach(v);
      }
  }

  void carry_over() {
    for (std::size_t o = 0; o < model_.outputs.size(); ++o) {
      const OutputRecord& out = model_.outputs[o];
      if (!is_state(out.role) || !reached(program_.outs[o])) continue;
      for (std::size_t i = 0; i < model_.inputs.size(); ++i)
        if (is_state(model_.inputs[i].role) && model_.inputs[i].path == out.path &&
            model_.inputs[i].leaf == out.leaf)
          reach(program_.invars[i]);
    }
  }

  const Model& model_;
  const Jaxpr& program_;
  std::size_t leaf_;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace

std::vector<LeafWay> ways_of_parameters(const Model& model, const StepProgram& step) {
  const ClosedJaxpr program = inline_calls(model.program);
  std::vector<LeafWay> out;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    if (model.inputs[i].role != Role::Param) continue;
    InfluenceWalk walk(model, program.jaxpr, i, out.size());
    walk.enter(step);
    out.push_back(std::move(walk.way));
  }
  return out;
}

}  // namespace etrace
