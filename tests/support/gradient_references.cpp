// RTRL with dense Jacobians, BPTT, finite differences: see the header.
#include <array>
#include <cmath>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"
#include "support/gradient_judge.h"
#include "support/numeric.h"
#include "support/random_models.h"

namespace etrace::testing {

namespace {

bool is_carried(Role role) { return role == Role::Hidden || role == Role::Other; }

// Which inputs and outputs of the step are what; states are matched by their paths.
struct StepPorts {
  std::vector<std::size_t> args, states, params;  // inputs
  std::vector<std::size_t> new_states;            // outputs, parallel to states
  std::size_t result = 0;
  explicit StepPorts(const Model& m) {
    for (std::size_t i = 0; i < m.inputs.size(); ++i) {
      const InputRecord& in = m.inputs[i];
      (in.role == Role::Arg ? args : in.role == Role::Param ? params : states).push_back(i);
      if (!is_carried(in.role)) continue;
      std::size_t found = m.outputs.size();
      for (std::size_t o = 0; o < m.outputs.size(); ++o)
        if (is_carried(m.outputs[o].role) && m.outputs[o].path == in.path && m.outputs[o].leaf == in.leaf)
          found = o;
      new_states.push_back(found);
    }
    while (result < m.outputs.size() && m.outputs[result].role != Role::Out) ++result;
  }
};

struct StepOut {
  Arrays states;
  Array loss;
};
StepOut run_step(const Model& m, const StepPorts& at, const ClosedJaxpr& program, ArraySpan args,
                 const Array& target, ArraySpan states, ArraySpan params) {
  Arrays in(m.inputs.size());
  for (std::size_t k = 0; k < at.args.size(); ++k)
    in[at.args[k]] = args[static_cast<std::size_t>(m.inputs[at.args[k]].index)];
  for (std::size_t k = 0; k < at.states.size(); ++k) in[at.states[k]] = states[k];
  for (std::size_t k = 0; k < at.params.size(); ++k) in[at.params[k]] = params[k];
  const Arrays out = eval_jaxpr(program, in);
  StepOut r;
  for (std::size_t k = 0; k < at.states.size(); ++k)
    r.states.push_back(at.new_states[k] < out.size() ? out[at.new_states[k]] : states[k]);
  r.loss = sum(square(out[at.result] - target));
  return r;
}

double norm_of(const Numbers& v) {
  double sum = 0.0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

Numbers numbers(const Tensor& t) { return t.to_doubles(); }

// The program with every new hidden state detached where something reads it later in the step.
ClosedJaxpr detached(const Model& m, const StepPorts& at) {
  const Jaxpr& j = m.program.jaxpr;
  return make_jaxpr(
      [&](ArraySpan in) {
        std::vector<std::pair<std::uint64_t, Array>> values;
        const auto set = [&](const Var& v, const Array& a) { values.emplace_back(v.id, a); };
        const auto get = [&](const Atom& a) -> Array {
          if (const Var* v = as_var(a)) {
            for (auto it = values.rbegin(); it != values.rend(); ++it)
              if (it->first == v->id) return it->second;
            throw ValueError("judge", "a value is not defined");
          }
          const Literal& l = std::get<Literal>(a);
          return full({}, l.value, l.dtype);
        };
        const auto is_exit = [&](const Var& v) {
          for (std::size_t k = 0; k < at.states.size(); ++k) {
            const Var* exit = at.new_states[k] < j.outs.size() ? as_var(j.outs[at.new_states[k]]) : nullptr;
            if (m.inputs[at.states[k]].role == Role::Hidden && exit != nullptr && *exit == v) return true;
          }
          return false;
        };
        for (std::size_t i = 0; i < j.constvars.size(); ++i) set(j.constvars[i], m.program.consts[i]);
        for (std::size_t i = 0; i < j.invars.size(); ++i) set(j.invars[i], in[i]);
        for (const Eqn& eqn : j.eqns) {
          Arrays operands;
          for (const Atom& a : eqn.in) operands.push_back(get(a));
          const Arrays out = bind_primitive(*eqn.prim, operands, eqn.params);
          for (std::size_t i = 0; i < out.size(); ++i)
            set(eqn.out[i],
                is_exit(eqn.out[i]) && is_floating(out[i].dtype()) ? stop_gradient(out[i]) : out[i]);
        }
        Arrays outs;
        for (const Atom& a : j.outs) outs.push_back(get(a));
        return outs;
      },
      j.in_avals());
}

}  // namespace

bool ReferenceGradient::finite() const {
  if (!std::isfinite(loss)) return false;
  for (const Numbers& leaf : leaves)
    for (const double x : leaf)
      if (!std::isfinite(x) || std::abs(x) > 1e8) return false;
  return true;
}

ValueDraw draw_values(const Model& given, std::int64_t steps, std::uint64_t draw) {
  Model m = given;
  if (draw > 0) draw_initial(m, 1000 + draw);
  // Small and large ones: where squares follow each other, the past fades in few steps or grows;
  // very small and very large ones where those have shown nothing.
  constexpr std::array<double, 6> kGains{1.0, 1.0, 2.0, 3.0, 1.5, 4.0}, kWider{0.3, 0.5, 2.5, 5.0, 0.15, 8.0};
  const double gain = (draw < 16 ? kGains : kWider)[draw % kGains.size()];
  const auto start = [&](const Tensor& t) { return is_floating(t.dtype()) ? gain * Array(t) : Array(t); };
  ValueDraw out;
  for (const InputRecord& in : m.inputs) {
    if (is_carried(in.role)) out.states.push_back(start(in.init));
    if (in.role == Role::Param) out.params.push_back(start(in.init));
  }
  // A step function gets the arguments by their index.
  std::vector<Aval> args;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::Arg) {
      const auto index = static_cast<std::size_t>(m.inputs[i].index);
      if (args.size() <= index) args.resize(index + 1);
      args[index] = m.program.jaxpr.invars[i].aval;
    }
  Random random(77 + draw);
  // Large ones as well: they make neurons spike and take other branches.
  const double most = draw % 3 == 1 ? 3.0 : 1.0;
  const auto values = [&](const Aval& a) {
    const bool whole = is_integer(a.dtype);
    return Array(
        random.tensor({a.dtype, a.shape.with_front(steps)}, whole ? 0.0 : -most, whole ? 3.0 : most));
  };
  for (const Aval& a : args) out.sequences.push_back(values(a));
  out.sequences.push_back(values(m.program.out_avals()[StepPorts(m).result]));
  return out;
}

// RTRL ------------------------------------------------------------------------------------------------------
struct DenseRtrl64::Impl {
  const Model model;
  StepPorts at;
  std::vector<std::size_t> floating, whole;  // of the states: carried in one vector, and beside it
  std::int64_t width = 0, num_params = 0;    // numbers of floating states and of parameters
  std::optional<Executable> jacobians, losses;
  mutable std::optional<Executable> beside;

  explicit Impl(const Model& m) : model(m), at(m) {
    for (std::size_t k = 0; k < at.states.size(); ++k)
      (is_floating(type_of_state(k).dtype) ? floating : whole).push_back(k);
    for (const std::size_t k : floating) width += type_of_state(k).shape.size();
    for (const std::size_t i : at.params) num_params += model.program.jaxpr.invars[i].aval.shape.size();
    jacobians.emplace(program(model.program, true));
    losses.emplace(program(model.program, false));
  }

  Aval type_of_state(std::size_t k) const { return model.program.jaxpr.invars[at.states[k]].aval; }
  Avals arg_types() const {
    Avals out(at.args.size());
    for (const std::size_t i : at.args)
      out[static_cast<std::size_t>(model.inputs[i].index)] = model.program.jaxpr.invars[i].aval;
    return out;
  }

  // (arguments…, target, integer states…, z = [floating states, parameters]) ->
  //   (integer states…, [floating states, loss], their Jacobian with respect to z)
  ClosedJaxpr program(const ClosedJaxpr& step, bool with_jacobian) const {
    Avals in = arg_types();
    const std::size_t num_args = in.size();
    in.push_back(step.out_avals()[at.result]);
    for (const std::size_t k : whole) in.push_back(type_of_state(k));
    in.push_back({Dtype::F64, {width + num_params}});
    return simplify(make_jaxpr(
                        [&](ArraySpan v) {
                          const ArraySpan args = v.first(num_args),
                                          given = v.subspan(num_args + 1, whole.size());
                          const auto run = [&](const Array& z) {
                            Arrays states(at.states.size()), params;
                            std::int64_t begin = 0;
                            const auto cut = [&](const Shape& shape) {
                              begin += shape.size();
                              return reshape(slice_axis(z, 0, begin - shape.size(), begin), shape.to_dims());
                            };
                            for (const std::size_t k : floating) states[k] = cut(type_of_state(k).shape);
                            for (std::size_t k = 0; k < whole.size(); ++k) states[whole[k]] = given[k];
                            for (const std::size_t i : at.params)
                              params.push_back(cut(model.program.jaxpr.invars[i].aval.shape));
                            return run_step(model, at, step, args, v[num_args], states, params);
                          };
                          const auto flat = [&](const StepOut& r) {
                            Arrays parts;
                            for (const std::size_t k : floating) parts.push_back(reshape(r.states[k], {-1}));
                            parts.push_back(reshape(r.loss, {1}));
                            return concatenate(parts, 0);
                          };
                          const StepOut now = run(v.back());
                          Arrays out;
                          for (const std::size_t k : whole) out.push_back(now.states[k]);
                          out.push_back(flat(now));
                          if (with_jacobian)
                            out.push_back(jacrev([&](ArraySpan z) { return Arrays{flat(run(z[0]))}; })(
                                Arrays{v.back()})[0]);
                          return out;
                        },
                        in))
        .to_run();
  }

  // Calls f with what each step gives: [states, loss] and, if asked for, the Jacobian.
  template <class F>
  void walk(const Executable& code, const ValueDraw& d, const F& f) const {
    Numbers z;
    for (const std::size_t k : floating)
      for (const double x : numbers(d.states[k].tensor())) z.push_back(x);
    for (const Array& p : d.params)
      for (const double x : numbers(p.tensor())) z.push_back(x);
    Tensors given;
    for (const std::size_t k : whole) given.push_back(d.states[k].tensor());
    const auto now = [](const Array& a, std::int64_t t) {
      return squeeze(slice_axis(a, 0, t, t + 1), {0}).tensor();
    };
    for (std::int64_t t = 0; t < d.steps(); ++t) {
      Tensors in;
      for (const Array& a : d.sequences) in.push_back(now(a, t));
      in.insert(in.end(), given.begin(), given.end());
      in.push_back(array(z, {static_cast<std::int64_t>(z.size())}, Dtype::F64).tensor());
      if (d.freeze && d.weight(t) == 0.0) continue;
      const Tensors out = code(in);
      given.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(whole.size()));
      const Numbers next = numbers(out[whole.size()]);
      std::copy(next.begin(), next.end() - 1, z.begin());
      f(d.weight(t), next.back(), out.size() > whole.size() + 1 ? numbers(out.back()) : Numbers{});
    }
  }

  ReferenceGradient split(double loss, const Numbers& g, const Numbers& magnitude) const {
    ReferenceGradient out;
    out.loss = loss;
    std::size_t begin = 0;
    for (const std::size_t i : at.params) {
      const auto n = static_cast<std::size_t>(model.program.jaxpr.invars[i].aval.shape.size());
      const auto part = [&](const Numbers& v) {
        return Numbers(v.begin() + static_cast<std::ptrdiff_t>(begin),
                       v.begin() + static_cast<std::ptrdiff_t>(begin + n));
      };
      out.leaves.push_back(part(g));
      out.magnitude.push_back(norm_of(part(magnitude)));
      begin += n;
    }
    return out;
  }

  ReferenceGradient rtrl(const Executable& code, const ValueDraw& d, bool through_time) const {
    const auto s = static_cast<std::size_t>(width), p = static_cast<std::size_t>(num_params);
    Numbers influence(s * p, 0.0), g(p, 0.0), magnitude(p, 0.0);
    double total = 0.0;
    walk(code, d, [&](double weight, double loss, const Numbers& j) {
      total += weight * loss;
      const auto at_row = [&](std::size_t r, std::size_t c) { return j[r * (s + p) + c]; };
      for (std::size_t c = 0; c < p; ++c) {
        double all = at_row(s, s + c), size = std::abs(all);
        for (std::size_t k = 0; k < s && through_time; ++k) {
          all += at_row(s, k) * influence[k * p + c];
          size += std::abs(at_row(s, k) * influence[k * p + c]);
        }
        g[c] += weight * all;
        magnitude[c] += weight * size;
      }
      Numbers next(s * p);
      for (std::size_t r = 0; r < s; ++r)
        for (std::size_t c = 0; c < p; ++c) {
          double sum = at_row(r, s + c);
          for (std::size_t k = 0; k < s; ++k) sum += at_row(r, k) * influence[k * p + c];
          next[r * p + c] = sum;
        }
      influence = next;
    });
    return split(total, g, magnitude);
  }
};

DenseRtrl64::DenseRtrl64(const Model& m) : impl_(std::make_unique<Impl>(m)) {}
DenseRtrl64::~DenseRtrl64() = default;
ReferenceGradient DenseRtrl64::operator()(const ValueDraw& d) const {
  return impl_->rtrl(*impl_->jacobians, d, true);
}
ReferenceGradient DenseRtrl64::beside_states(const ValueDraw& d) const {
  if (!impl_->beside) impl_->beside.emplace(impl_->program(detached(impl_->model, impl_->at), true));
  return impl_->rtrl(*impl_->beside, d, false);
}
double DenseRtrl64::loss(const ValueDraw& d) const {
  double total = 0.0;
  impl_->walk(*impl_->losses, d, [&](double weight, double loss, const Numbers&) { total += weight * loss; });
  return total;
}

// BPTT ------------------------------------------------------------------------------------------------------
namespace {

// The loss over the sequence as one function of the parameters.
ScalarFunction loss_over_time(const Model& m, const ValueDraw& d) {
  const StepPorts at(m);
  Arrays xs = d.sequences;
  Numbers weights;
  for (std::int64_t t = 0; t < d.steps(); ++t) weights.push_back(d.weight(t));
  xs.push_back(array(weights, {d.steps()}, Dtype::F64));
  return [&m, &d, at, xs](ArraySpan params) {
    const ScanResult r = scan(
        [&](ArraySpan states, ArraySpan all) -> ScanResult {
          const ArraySpan now = all.first(all.size() - 1);
          const StepOut out =
              run_step(m, at, m.program, now.first(now.size() - 1), now.back(), states, params);
          Arrays next = out.states;
          for (std::size_t i = 0; i < next.size() && d.freeze; ++i)
            next[i] = where(all.back() > 0.0, next[i], states[i]);
          return {next, {all.back() * out.loss}};
        },
        d.states, xs);
    return sum(r.ys[0]);
  };
}

}  // namespace

ReferenceGradient reverse_mode(const Model& m, const ValueDraw& d) {
  const ScalarFunction loss = loss_over_time(m, d);
  std::vector<int> every;
  for (std::size_t i = 0; i < d.params.size(); ++i) every.push_back(static_cast<int>(i));
  const Tensors out = evaluate(simplify(make_jaxpr(value_and_grad(loss, every), avals_of(d.params))).to_run(),
                               to_tensors(d.params));
  ReferenceGradient g;
  g.loss = numbers(out[0])[0];
  for (std::size_t i = 1; i < out.size(); ++i) {
    g.leaves.push_back(numbers(out[i]));
    g.magnitude.push_back(norm_of(g.leaves.back()));
  }
  return g;
}

namespace {

// A direction in the space of parameters, and what the gradient says of it.
struct Direction {
  Arrays along;
  double expected = 0.0, size = 0.0;
};
Direction draw_direction(const ValueDraw& d, const ReferenceGradient& g, std::uint64_t seed) {
  Random random(seed);
  Direction out;
  for (std::size_t i = 0; i < d.params.size(); ++i) {
    out.along.push_back(random.f64(d.params[i].shape()));
    const Numbers v = numbers(out.along[i].tensor());
    for (std::size_t k = 0; k < v.size(); ++k) {
      out.expected += v[k] * g.leaves[i][k];
      out.size += std::abs(v[k] * g.leaves[i][k]);
    }
  }
  return out;
}

// How much rounding changes a value, from nine neighbours at equal distances: their sixth differences, which
// leave nothing of a smooth function (Hamming; Moré and Wild, "Estimating computational noise").
double noise_of(Numbers values) {
  for (int order = 0; order < 6; ++order) {
    for (std::size_t i = 0; i + 1 < values.size(); ++i) values[i] = values[i + 1] - values[i];
    values.pop_back();
  }
  return norm_of(values) / std::sqrt(924.0 * static_cast<double>(values.size()));
}

}  // namespace

Difference forward_mode(const Model& m, const ValueDraw& d, const ReferenceGradient& g, std::uint64_t seed) {
  const Direction to = draw_direction(d, g, seed);
  const ScalarFunction loss = loss_over_time(m, d);
  Arrays in = d.params;
  in.insert(in.end(), to.along.begin(), to.along.end());
  const Function f = [&](ArraySpan params) { return Arrays{loss(params)}; };
  const Tensors out = evaluate(simplify(make_jaxpr(jvp(f), avals_of(in))).to_run(), to_tensors(in));
  double magnitude = 0.0;
  for (const double each : g.magnitude) magnitude += each;
  return {numbers(out[1])[0], 1e-12 * magnitude + 1e-14 * (1.0 + std::abs(g.loss)), to.expected, to.size};
}

Difference difference_along(const DenseRtrl64& reference, const ValueDraw& d, const ReferenceGradient& g,
                            std::uint64_t seed) {
  const Direction to = draw_direction(d, g, seed);
  const auto at = [&](double by) {
    ValueDraw moved = d;
    for (std::size_t i = 0; i < d.params.size(); ++i) moved.params[i] = d.params[i] + by * to.along[i];
    return reference.loss(moved);
  };
  constexpr double kSmallest = 1e-3 / 1024.0;
  const double here = reference.loss(d);
  // f[4 + k] is the loss at k·h.
  const auto around = [&](double h) {
    Numbers f;
    for (int k = -4; k <= 4; ++k) f.push_back(k == 0 ? here : at(k * h));
    return f;
  };
  const auto one_sided = [](const Numbers& f, double h) {  // of fourth order
    const auto side = [&](int k) { return f[static_cast<std::size_t>(h > 0.0 ? 4 + k : 4 - k)]; };
    return (-25.0 * side(0) + 48.0 * side(1) - 36.0 * side(2) + 16.0 * side(3) - 3.0 * side(4)) / (12.0 * h);
  };
  const auto central = [](const Numbers& f, double h) {  // of eighth order
    return (672.0 * (f[5] - f[3]) - 168.0 * (f[6] - f[2]) + 32.0 * (f[7] - f[1]) - 3.0 * (f[8] - f[0])) /
           (840.0 * h);
  };
  const double noise = noise_of(around(kSmallest)) + 1e-16 * (1.0 + std::abs(here));
  Difference out{0.0, HUGE_VAL, to.expected, to.size + 1e-3 * (1.0 + std::abs(g.loss))};
  for (double h = 1e-3; h > 0.9 * kSmallest; h /= 4.0) {
    const Numbers f = around(h);
    const double found = central(f, h);
    const double error =
        std::max(std::abs(one_sided(f, h) - found), std::abs(one_sided(f, -h) - found)) + 10.0 * noise / h;
    if (!(error < out.error)) continue;
    out.found = found;
    out.error = error;
  }
  return out;
}

}  // namespace etrace::testing
