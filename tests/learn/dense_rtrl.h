// RTRL with dense matrices, from Jacobians of the step: what rules with composite traces are judged by.
#pragma once

#include "etrace/transform.h"
#include "learn/scenario.h"

namespace etrace::testing {

using ByName = std::function<Array(const std::string&)>;
using Cut = std::function<Array(const Array&)>;

// A network with one argument, x, whose states have one shape. `next` passes what enters recurrent products
// through `cut`, so that the diagonal scope is the derivative with these held; `behind` names parameters that
// act through others.
struct Net {
  std::string name;
  std::vector<StepInput> inputs;
  std::vector<std::string> states, behind;
  std::function<Arrays(const ByName&, const Cut&)> next;
  std::function<Array(const ByName&)> result;

  Model model() const {
    return step_model(inputs, [this](In& in) {
      const ByName at = [&](const std::string& n) { return in[n]; };
      const Arrays now = next(at, [](const Array& a) { return a; });
      for (std::size_t i = 0; i < states.size(); ++i) in.set(states[i], now[i]);
      return result(at);
    });
  }
};

struct DenseRtrl {
  const Net& net;
  bool coupled;
  Model model = net.model();
  ParamValues params = initial_params(model);
  Arrays influence{};  // per parameter [states, elements]

  DenseRtrl(const Net& n, bool c) : net(n), coupled(c) {
    for (const Array& w : params.values)
      influence.push_back(zeros({slab_of_start().size(), w.size()}, Dtype::F64));
  }

  // All states in one vector, state after state.
  static Array slab(const Arrays& states) {
    Arrays flat;
    for (const Array& s : states) flat.push_back(reshape(s, {-1}));
    return concatenate(flat);
  }
  Arrays start() const {
    Arrays out;
    for (const std::string& n : net.states)
      for (const InputRecord& in : model.inputs)
        if (in.role == Role::Hidden && to_string(in.path) == n) out.push_back(in.init);
    return out;
  }
  Array slab_of_start() const { return slab(start()); }
  Arrays unslab(const Array& flat) const {
    Arrays out;
    const Arrays like = start();
    for (std::size_t i = 0; i < like.size(); ++i) {
      const auto n = like[i].size(), first = static_cast<std::int64_t>(i) * n;
      out.push_back(reshape(slice_axis(flat, 0, first, first + n), like[i].shape().to_dims()));
    }
    return out;
  }
  ByName values(const Arrays& states, ArraySpan w, const Arrays& x) const {
    return [this, states, w = Arrays(w.begin(), w.end()), x](const std::string& n) -> Array {
      for (std::size_t i = 0; i < net.states.size(); ++i)
        if (net.states[i] == n) return states[i];
      for (std::size_t i = 0; i < w.size(); ++i)
        if (to_string(params.leaves[i]) == n) return w[i];
      return x.at(0);
    };
  }
  Array next(const Array& h, ArraySpan w, const Arrays& x, bool cut = false) const {
    return slab(
        net.next(values(unslab(h), w, x), [&](const Array& a) { return cut ? stop_gradient(a) : a; }));
  }
  Array loss(const Array& h, ArraySpan w, const Arrays& x, const Array& target) const {
    return sum(square(net.result(values(unslab(h), w, x)) - target));
  }

  // e ← D·e + ∂h/∂θ, D the blocks of equal positions.
  void move(const Array& h, const Arrays& x) {
    const std::int64_t n = h.size(), s = static_cast<std::int64_t>(net.states.size());
    const Array whole =
        jacrev([&](ArraySpan a) { return Arrays{next(a[0], params.values, x, !coupled)}; })(Arrays{h})[0];
    const Array same =
        broadcast_to(reshape(eye(n / s, Dtype::F64), {1, n / s, 1, n / s}), {s, n / s, s, n / s});
    const Array d = whole * reshape(same, {n, n});
    for (std::size_t i = 0; i < influence.size(); ++i) {
      const Function of_weight = [&](ArraySpan w) {
        Arrays all = params.values;
        all[i] = w[0];
        return Arrays{next(h, all, x)};
      };
      const Array fresh = jacrev(of_weight)(Arrays{params.values[i]})[0];
      influence[i] = dot(d, influence[i]) + reshape(fresh, influence[i].shape().to_dims());
    }
  }
  static Arrays at(const Sequence& data, std::int64_t t) {
    Arrays out;
    for (const Array& a : data.args) out.push_back(squeeze(slice_axis(a, 0, t, t + 1), {0}));
    return out;
  }
  static Array target(const Sequence& data, std::int64_t t) {
    return squeeze(slice_axis(data.targets, 0, t, t + 1), {0});
  }
  void add(ParamValues& total, const Array& signal, ArraySpan direct) const {
    for (std::size_t i = 0; i < influence.size(); ++i)
      total.values[i] =
          total.values[i] + direct[i] + reshape(dot(signal, influence[i]), total.values[i].shape().to_dims());
  }
  ParamValues nothing() const {
    ParamValues out = params;
    for (Array& a : out.values) a = zeros_of(a.aval());
    return out;
  }
  std::vector<int> every() const {
    std::vector<int> out;
    for (std::size_t i = 0; i <= params.values.size(); ++i) out.push_back(static_cast<int>(i));
    return out;
  }

  // Every step's loss meets the influence after it; a modulator may stand in place of ∂L/∂h.
  ParamValues single_steps(const Sequence& data, std::optional<double> modulator = {}) {
    Array h = slab_of_start();
    ParamValues total = nothing();
    for (std::int64_t t = 0; t < data.length(); ++t) {
      const Arrays x = at(data, t);
      move(h, x);
      h = next(h, params.values, x);
      const ScalarFunction here = [&](ArraySpan a) { return loss(a[0], a.subspan(1), x, target(data, t)); };
      Arrays point{h};
      point.insert(point.end(), params.values.begin(), params.values.end());
      const Arrays slope = grad(here, every())(point);
      add(total, modulator ? full_like(slope[0], *modulator) : slope[0], ArraySpan(slope).subspan(1));
    }
    return total;
  }
  // Reverse mode inside windows, and the signal at their entry meets the influence from before.
  ParamValues windows(const Sequence& data, std::int64_t window) {
    Array h = slab_of_start();
    ParamValues total = nothing();
    for (std::int64_t begin = 0; begin < data.length(); begin += window) {
      const std::int64_t end = std::min(begin + window, data.length());
      const ScalarFunction inside = [&](ArraySpan a) {
        Array now = a[0], sum_of_losses = zeros({}, Dtype::F64);
        for (std::int64_t t = begin; t < end; ++t) {
          now = next(now, a.subspan(1), at(data, t));
          sum_of_losses = sum_of_losses + loss(now, a.subspan(1), at(data, t), target(data, t));
        }
        return sum_of_losses;
      };
      Arrays point{h};
      point.insert(point.end(), params.values.begin(), params.values.end());
      const Arrays slope = grad(inside, every())(point);
      add(total, slope[0], ArraySpan(slope).subspan(1));
      for (std::int64_t t = begin; t < end; ++t) {
        move(h, at(data, t));
        h = next(h, params.values, at(data, t));
      }
    }
    return total;
  }
};

}  // namespace etrace::testing
