#include "etrace/nn/mgu_cell.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

MGUCell::MGUCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::orthogonal(), tanh)),
      h(hidden("h", {out_size}, options_.dtype)),
      Wf(child<Linear>("Wf", in_size + out_size, out_size, renewing_gate(options_))),
      Wh(child<Linear>("Wh", in_size + out_size, out_size, gate_options(options_))) {}

Array MGUCell::update(const Array& x) {
  const Array before = h.value();
  const Array f = logistic(Wf(join_input(x, before)));
  const Array candidate = options_.activation(Wh(join_input(x, f * before)));
  const Array kept = (1.0 - f) * before;
  h.set(kept + f * candidate);
  return h.value();
}

}  // namespace etrace::nn
