#include "etrace/nn/cfn_cell.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

CFNCell::CFNCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::orthogonal(), tanh)),
      h(hidden("h", {out_size}, options_.dtype)),
      Wf(child<Linear>("Wf", in_size + out_size, out_size, keeping_gate(options_))),
      Wi(child<Linear>("Wi", in_size + out_size, out_size, renewing_gate(options_))),
      Wh(child<Linear>("Wh", in_size, out_size, gate_options(options_))) {}

Array CFNCell::update(const Array& x) {
  const Array before = h.value();
  const Array xh = join_input(x, before);
  const Array f = logistic(Wf(xh));
  const Array i = logistic(Wi(xh));
  const Array kept = f * options_.activation(before);
  h.set(kept + i * options_.activation(Wh(x)));
  return h.value();
}

}  // namespace etrace::nn
