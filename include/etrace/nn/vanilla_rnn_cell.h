// h ← φ(W[x, h])
#pragma once

#include "etrace/nn/cell.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// φ = relu, W Xavier normal. Hidden state h [out]; returns the new h.
class VanillaRNNCell : public NumberLayer {
 public:
  using Options = CellOptions;
  VanillaRNNCell(std::int64_t in_size, std::int64_t out_size, CellOptions = {});
  Array update(const Array& x) override;

 private:
  CellOptions options_;

 public:
  HiddenState& h;
  Linear& W;
};
using ValinaRNNCell = VanillaRNNCell;  // the reference system's spelling

}  // namespace etrace::nn
#pragma GCC visibility pop
