#include "etrace/nn/lstm_cell.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

LSTMCell::LSTMCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::xavier_normal(init::Distribution::Normal), tanh)),
      c(hidden("c", {out_size}, options_.dtype)),
      h(hidden("h", {out_size}, options_.dtype)),
      Wi(child<Linear>("Wi", in_size + out_size, out_size, renewing_gate(options_))),
      Wg(child<Linear>("Wg", in_size + out_size, out_size, gate_options(options_))),
      Wf(child<Linear>("Wf", in_size + out_size, out_size, keeping_gate(options_, 1.0))),
      Wo(child<Linear>("Wo", in_size + out_size, out_size, gate_options(options_))) {}

Array LSTMCell::update(const Array& x) {
  const Array xh = join_input(x, h.value());
  const Array before = c.value();
  const Array i = Wi(xh);
  const Array g = Wg(xh);
  const Array f = Wf(xh);
  const Array o = Wo(xh);
  const Array kept = logistic(f + 1.0) * before;
  const Array open = logistic(i);
  c.set(kept + open * options_.activation(g));
  const Array shown = logistic(o);
  h.set(shown * options_.activation(c.value()));
  return h.value();
}

}  // namespace etrace::nn
