#include "etrace/nn/mini_lstm.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

MiniLSTM::MiniLSTM(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::orthogonal(), nn::activation("identity"))),
      h(hidden("h", {out_size}, options_.dtype)),
      W_x(child<Linear>("W_x", in_size, out_size, gate_options(options_))),
      W_f(child<Linear>("W_f", in_size + out_size, out_size, keeping_gate(options_))),
      W_i(child<Linear>("W_i", in_size + out_size, out_size, renewing_gate(options_))) {}

Array MiniLSTM::update(const Array& x) {
  const Array before = h.value();
  const Array xh = join_input(x, before);
  const Array f = logistic(W_f(xh));
  const Array i = logistic(W_i(xh));
  const Array kept = f * before;
  h.set(kept + i * options_.activation(W_x(x)));
  return h.value();
}

}  // namespace etrace::nn
