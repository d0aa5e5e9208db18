#include "etrace/nn/vanilla_rnn_cell.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

VanillaRNNCell::VanillaRNNCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(or_defaults(std::move(options), init::xavier_normal(init::Distribution::Normal), relu)),
      h(hidden("h", {out_size}, options_.dtype)),
      W(child<Linear>("W", in_size + out_size, out_size, gate_options(options_))) {}

Array VanillaRNNCell::update(const Array& x) {
  h.set(options_.activation(W(join_input(x, h.value()))));
  return h.value();
}

}  // namespace etrace::nn
