// The cells with convolutions in place of matrix products; x and h are images [space…, channels]:
//   ConvRNNCell    h ← φ(W[x, h])
//   ConvGRUCell    z = σ(Wz[x, h])   r = σ(Wr[x, h])   h ← (1 − z)⊙h + z⊙φ(Wh[x, r⊙h])
//   ConvLSTMCell   c ← σ(Wf[x, h] + 1)⊙c + σ(Wi[x, h])⊙φ(Wg[x, h])   h ← σ(Wo[x, h])⊙φ(c)
#pragma once

#include "etrace/nn/activation.h"
#include "etrace/nn/conv.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct ConvCellOptions {
  Initializer weight_init = init::xavier_normal();
  Initializer bias_init = init::zeros();  // empty: no biases
  Activation activation = {};             // empty: the cell's own
  Dims dilation = {1};
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
  double memory = 0.0;  // of cells with gates: as CellOptions::memory
};

// φ = tanh. Samples x are [space…, in] in 1 to 3 dimensions, `in_size`; hidden state h [space…, out].
class ConvRNNCell : public NumberLayer {
 public:
  using Options = ConvCellOptions;
  ConvRNNCell(const Shape& in_size, std::int64_t out_channels, const Dims& kernel_size, ConvCellOptions = {});
  Array update(const Array& x) override;

 private:
  ConvCellOptions options_;

 public:
  HiddenState& h;
  Conv& W;
};

// φ = tanh; as ConvRNNCell.
class ConvGRUCell : public NumberLayer {
 public:
  using Options = ConvCellOptions;
  ConvGRUCell(const Shape& in_size, std::int64_t out_channels, const Dims& kernel_size, ConvCellOptions = {});
  Array update(const Array& x) override;

 private:
  ConvCellOptions options_;

 public:
  HiddenState& h;
  Conv &Wz, &Wr, &Wh;
};

// φ = tanh; as ConvRNNCell, with the second hidden state c.
class ConvLSTMCell : public NumberLayer {
 public:
  using Options = ConvCellOptions;
  ConvLSTMCell(const Shape& in_size, std::int64_t out_channels, const Dims& kernel_size,
               ConvCellOptions = {});
  Array update(const Array& x) override;

 private:
  ConvCellOptions options_;

 public:
  HiddenState &c, &h;
  Conv &Wi, &Wg, &Wf, &Wo;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
