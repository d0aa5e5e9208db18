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
};
CellOptions or_defaults(CellOptions, Initializer weight_init, Activation);
LinearOptions gate_options(const CellOptions&);

// [x, h] on the last axis, x first. ValueError if one has a batch axis and the other has not.
Array join_input(const Array& x, const Array& h);

}  // namespace etrace::nn
#pragma GCC visibility pop
