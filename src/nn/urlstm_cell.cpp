#include "etrace/nn/urlstm_cell.h"

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace::nn {

namespace {
CellOptions without_biases(CellOptions options) {
  options.bias_init = {};
  return options;
}

Array forgetting(std::int64_t size, const CellOptions& o) {
  if (o.memory > 0.0) return init::chrono(o.memory)(layer_key(o.seed), {size}, o.dtype);
  const double edge = 1.0 / static_cast<double>(std::max<std::int64_t>(size, 3));
  const Array u = random::uniform(layer_key(o.seed), {size}, o.dtype, edge, 1.0 - edge);
  return -log(1.0 / u - 1.0);
}
}  // namespace

URLSTMCell::URLSTMCell(std::int64_t in_size, std::int64_t out_size, CellOptions options)
    : options_(without_biases(
          or_defaults(std::move(options), init::xavier_normal(init::Distribution::Normal), tanh))),
      c(hidden("c", {out_size}, options_.dtype)),
      h(hidden("h", {out_size}, options_.dtype)),
      Wu(child<Linear>("Wu", in_size + out_size, out_size, gate_options(options_))),
      Wf(child<Linear>("Wf", in_size + out_size, out_size, gate_options(options_))),
      Wr(child<Linear>("Wr", in_size + out_size, out_size, gate_options(options_))),
      Wo(child<Linear>("Wo", in_size + out_size, out_size, gate_options(options_))),
      bias(param("bias", [out_size, o = options_] { return forgetting(out_size, o); })) {}

Array URLSTMCell::update(const Array& x) {
  const Array xh = join_input(x, h.value());
  const Array before = c.value();
  const Array f_in = Wf(xh);
  const Array r_in = Wr(xh);
  const Array u = Wu(xh);
  const Array o = Wo(xh);
  const Array f = logistic(f_in + element_wise(bias.value()));
  const Array r = logistic(r_in - element_wise(bias.value()));
  const Array twice = 2.0 * r;
  const Array q = twice * f + (1.0 - twice) * square(f);
  const Array kept = q * before;
  const Array rest = 1.0 - q;
  c.set(kept + rest * options_.activation(u));
  const Array shown = logistic(o);
  h.set(shown * options_.activation(c.value()));
  return h.value();
}

}  // namespace etrace::nn
