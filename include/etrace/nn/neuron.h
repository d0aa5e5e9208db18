// What spiking neurons share. A step takes the spikes of the step before (recomputed from the states),
// resets, integrates, adds what jumps, and returns the spikes of the new states.
#pragma once

#include "etrace/nn/constant.h"
#include "etrace/nn/surrogate.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

enum class Reset : std::uint8_t {
  Soft,  // V − (V_th − V_reset)·s: what exceeds the threshold is kept
  Hard,  // V_reset
};

struct NeuronInput {
  Array current = {};                                    // constant during the step; undefined: none
  std::function<Array(const Array& V)> current_of = {};  // added to it: conductances, gap junctions …
  Array delta = {};                                      // added to V after the step; undefined: none
};
// The sum of both, of any number of sources.
NeuronInput operator+(const NeuronInput&, const NeuronInput&);

class Neuron : public Dynamics {
 public:
  Array update(const Array& current) override { return step(spikes(), {.current = current}); }

  virtual Array spikes() const = 0;  // of the states as they stand
  // One step. `fired` is spikes(), asked for by who needs it before the input is known.
  virtual Array step(const Array& fired, const NeuronInput&) = 0;
  virtual Unit current_unit() const { return units::mA; }
  Unit input_unit() const override { return current_unit(); }

 protected:
  using Dynamics::Dynamics;
  void require_input(const NeuronInput&) const;  // shapes
};

}  // namespace etrace::nn
#pragma GCC visibility pop
