// What recurrent cells share.
#pragma once

#include "etrace/nn/activation.h"
#include "etrace/nn/linear.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct CellOptions {
  Initializer weight_init = {};           // empty: the cell's own
  Initializer bias_init = init::zeros();  // empty: no biases
  Activation activation = {};             // empty: the cell's own
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
  // For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases
  // that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer
  // without gates with the identity between its units. 0: as weight_init and bias_init give them.
  double memory = 0.0;
};
CellOptions or_defaults(CellOptions, Initializer weight_init, Activation);
LinearOptions gate_options(const CellOptions&);
// Of a gate that keeps what was while it is open (`offset`: what the cell adds to it), and of one that takes
// in what is new.
LinearOptions keeping_gate(const CellOptions&, double offset = 0.0);
LinearOptions renewing_gate(const CellOptions&);

// [x, h] on the last axis, x first. ValueError if one has a batch axis and the other has not.
Array join_input(const Array& x, const Array& h);

}  // namespace etrace::nn
#pragma GCC visibility pop
