#include "etrace/nn/minimal_rnn_cell.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

MinimalRNNCell::MinimalRNNCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::orthogonal(), nn::activation("identity"))),
      h(hidden("h", {out_size}, options_.dtype)),
      phi(child<Linear>("phi", in_size, out_size, gate_options(options_))),
      W_u(child<Linear>("W_u", 2 * out_size, out_size, keeping_gate(options_))) {}

Array MinimalRNNCell::update(const Array& x) {
  const Array z = options_.activation(phi(x));
  const Array before = h.value();
  const Array u = logistic(W_u(join_input(z, before)));
  const Array kept = u * before;
  const Array rest = 1.0 - u;
  h.set(kept + rest * z);
  return h.value();
}

}  // namespace etrace::nn
