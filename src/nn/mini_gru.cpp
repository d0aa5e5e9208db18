#include "etrace/nn/mini_gru.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

MiniGRU::MiniGRU(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::orthogonal(), nn::activation("identity"))),
      h(hidden("h", {out_size}, options_.dtype)),
      W_x(child<Linear>("W_x", in_size, out_size, gate_options(options_))),
      W_z(child<Linear>("W_z", in_size + out_size, out_size, renewing_gate(options_))) {}

Array MiniGRU::update(const Array& x) {
  const Array before = h.value();
  const Array z = logistic(W_z(join_input(x, before)));
  const Array kept = (1.0 - z) * before;
  const Array candidate = options_.activation(W_x(x));
  h.set(kept + z * candidate);
  return h.value();
}

}  // namespace etrace::nn
