#include "etrace/nn/synaptic_current.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {
// Constants of an output have the element type of what they meet.
Array of_type(const Constant& c, Dtype dtype) {
  return c.value().is_weak() ? c.value() : convert(c.value(), dtype);
}
}  // namespace

SynapticCurrent SynapticCurrent::delta(double scale) { return SynapticCurrent({}, scale, true); }
SynapticCurrent SynapticCurrent::cuba(double scale) { return SynapticCurrent({}, scale); }

SynapticCurrent SynapticCurrent::coba(const Voltage& E, double scale) {
  return SynapticCurrent([=](const Array& g, const Array& V) { return g * (of_type(E, V.dtype()) - V); },
                         scale);
}

SynapticCurrent SynapticCurrent::mg_block(const MgBlock& o, double scale) {
  return SynapticCurrent(
      [=](const Array& g, const Array& V) {
        const Array blocked = o.cMg / o.beta * exp(o.alpha * (of_type(o.V_offset, V.dtype()) - V));
        return g * (of_type(o.E, V.dtype()) - V) / (1.0 + blocked);
      },
      scale);
}

NeuronInput SynapticCurrent::operator()(const Array& g) const {
  const double factor = scale_;
  const auto rescaled = [factor](const Array& I) { return factor == 1.0 ? I : factor * I; };
  if (jumps_) return {.delta = rescaled(g)};
  if (!of_v_) return {.current = rescaled(g)};
  return {.current_of = [=, f = of_v_](const Array& V) { return rescaled(f(g, V)); }};
}

}  // namespace etrace::nn
