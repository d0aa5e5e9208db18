// From a conductance g to the current into a neuron.
//   delta     V jumps by g·scale
//   CUBA      I = g·scale                 current based: does not depend on V
//   COBA      I = g·(E − V)               conductance based
//   MgBlock   I = g·(E − V)/(1 + [Mg]/β·e^(α·(V_off − V)))   NMDA receptors, blocked by magnesium at rest
#pragma once

#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// What a projection gives to a neuron. Conductances in mS and voltages in mV make currents in µA; `scale`
// says how much of the neuron's unit of current one of these is.
class SynapticCurrent {
 public:
  static SynapticCurrent delta(double scale = 1.0);
  static SynapticCurrent cuba(double scale = 1.0);
  static SynapticCurrent coba(const Voltage& E, double scale = 1.0);
  struct MgBlock {
    Voltage E = 0.0;
    double cMg = 1.2;                   // mM
    double alpha = 0.062, beta = 3.57;  // 1/mV, mM
    Voltage V_offset = 0.0;
  };
  static SynapticCurrent mg_block(const MgBlock&, double scale = 1.0);

  NeuronInput operator()(const Array& g) const;

 private:
  using OfV = std::function<Array(const Array& g, const Array& V)>;
  explicit SynapticCurrent(OfV f, double scale, bool jumps = false)
      : of_v_(std::move(f)), scale_(scale), jumps_(jumps) {}
  OfV of_v_;  // empty: does not depend on V
  double scale_;
  bool jumps_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
