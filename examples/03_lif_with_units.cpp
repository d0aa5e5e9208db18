// Spiking neurons in mV, ms, nS and pF. Units are checked while the step is traced; what runs has none.
//
// last line: 1 group, 1 relation, 20 equations
#include <iostream>

#include "etrace/compiler.h"
#include "etrace/random.h"
#include "etrace/units.h"

namespace et = etrace;
namespace units = et::units;
using namespace et::units::literals;

// g ← e^{-dt/τ} g + [x, z]·W
// C dV/dt = g_L (E_L − V) + g (0 mV − V)
// z = 1 where V reaches V_th; V then falls by V_th − E_L.
struct LIF : et::Module {
  static constexpr std::int64_t kIn = 4, kNeurons = 6;
  et::Quantity dt = 0.5_ms, tau = 5_ms, capacity = 200_pF, leak = 10_nS, rest = -65_mV, threshold = -50_mV;

  et::QuantityState w = with_unit(
      param("w", et::random::uniform(et::random::key(1), {kIn + kNeurons, kNeurons}, et::Dtype::F32, 0, 4)),
      units::nS);
  et::QuantityState v = with_unit(hidden("V", et::full({kNeurons}, -65.0, et::Dtype::F32)), units::mV);
  et::QuantityState g = with_unit(hidden("g", {kNeurons}), units::nS);

  et::Array spike(const et::Quantity& potential) const {
    const et::Quantity x = (potential - threshold) / (threshold - rest);  // a plain number: mV cancel
    return heaviside_surrogate(x, relu(1.0 - abs(x)));
  }
  et::Array update(const et::Array& x) override {
    const et::Quantity v0 = v.value();
    const et::Array z = spike(v0);
    g.set(exp(-dt / tau) * g.value() + matmul(et::concatenate(et::Arrays{x, z}), w.value()));
    const et::Quantity current = leak * (rest - v0) + g.value() * (0_mV - v0);  // nS·mV = pA
    v.set(v0 + dt / capacity * current - z * (threshold - rest));               // ms·pA/pF = mV
    return z;
  }
};

// The same with a slip: a conductance is added to a voltage.
struct Slip : LIF {
  et::Array update(const et::Array& x) override {
    v.set(v.value() + g.value());
    return x;
  }
};

int main() {
  LIF neurons;
  et::init_all_states(neurons);
  std::cout << "1. A run\n";
  for (int t = 0; t < 20; ++t) {
    const et::Array x = et::convert(
        et::random::bernoulli(et::random::fold_in(et::random::key(2), t), 0.5, {4}), et::Dtype::F32);
    const et::Array z = neurons(x);
    std::cout << "  t = " << to_string(t * neurons.dt) << "  mean V = " << to_string(mean(neurons.v.value()))
              << "  mean g = " << to_string(mean(neurons.g.value())) << "  spikes " << sum(z).item<int>()
              << "\n";
  }

  std::cout << "\n2. What the units catch\n";
  try {
    Slip slip;
    et::trace_step(slip, et::zeros({4}));
  } catch (const et::UnitError& error) {
    std::cout << "  " << error.what() << "\n";
  }

  std::cout << "\n3. The traced step: mantissas only\n";
  et::reset_all_states(neurons);
  const et::Model model = et::trace_step(neurons, et::zeros({4})).model;
  std::cout << to_string(model.program) << "\n";

  const et::ETraceGraph graph = et::compile_etrace_graph(neurons, et::zeros({4}));
  std::cout << "\n"
            << graph.hidden_groups.size() << " group, " << graph.hidden_param_op_relations.size()
            << " relation, " << model.program.jaxpr.eqns.size() << " equations\n";
}
