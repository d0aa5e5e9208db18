#include "etrace/nn/gru_cell.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

GRUCell::GRUCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::orthogonal(), tanh)),
      h(hidden("h", {out_size}, options_.dtype)),
      Wz(child<Linear>("Wz", in_size + out_size, out_size, renewing_gate(options_))),
      Wr(child<Linear>("Wr", in_size + out_size, out_size, gate_options(options_))),
      Wh(child<Linear>("Wh", in_size + out_size, out_size, gate_options(options_))) {}

Array GRUCell::update(const Array& x) {
  const Array before = h.value();
  const Array xh = join_input(x, before);
  const Array z = logistic(Wz(xh));
  const Array r = logistic(Wr(xh));
  const Array candidate = options_.activation(Wh(join_input(x, r * before)));
  const Array kept = (1.0 - z) * before;  // first: C++ leaves the order of the operands of + open
  h.set(kept + z * candidate);
  return h.value();
}

}  // namespace etrace::nn
