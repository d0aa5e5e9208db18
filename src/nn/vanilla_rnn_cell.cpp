#include "etrace/nn/vanilla_rnn_cell.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {
LinearOptions map_options(std::int64_t in_size, const CellOptions& o) {
  LinearOptions out = gate_options(o);
  if (o.memory > 0.0) out.weight_init = init::stacked_rows(in_size, o.weight_init, init::identity());
  return out;
}
}  // namespace

VanillaRNNCell::VanillaRNNCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::xavier_normal(init::Distribution::Normal), relu)),
      h(hidden("h", {out_size}, options_.dtype)),
      W(child<Linear>("W", in_size + out_size, out_size, map_options(in_size, options_))) {}

Array VanillaRNNCell::update(const Array& x) {
  h.set(options_.activation(W(join_input(x, h.value()))));
  return h.value();
}

}  // namespace etrace::nn
