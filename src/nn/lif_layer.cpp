#include "etrace/nn/lif_layer.h"

#include "etrace/nn/cell.h"
#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {
LinearOptions synapse_options(std::int64_t in_size, const LIFLayerOptions& o) {
  return {.weight_init = init::stacked_rows(in_size, init::scaled(o.input_init, o.input_scale),
                                            init::scaled(o.recurrent_init, o.recurrent_scale)),
          .bias_init = o.bias_init,
          .dtype = o.neuron.dtype,
          .seed = o.seed};
}
}  // namespace

LIFLayer::LIFLayer(std::int64_t in_size, std::int64_t out_size, const LIFLayerOptions& o)
    : LIF("LIFLayer", out_size, o.neuron),
      g(o.synapse == Synapse::Expon ? &hidden("g", {out_size}, o.neuron.dtype) : nullptr),
      syn(child<Linear>("syn", in_size + out_size, out_size, synapse_options(in_size, o))),
      tau_syn_(g == nullptr ? StepConstant(Array(1.0), nullptr) : positive("tau_syn", o.tau_syn)) {}

Array LIFLayer::update(const Array& x) {
  const Array fired = spikes();
  const Array joined = join_input(x, fired);
  if (g == nullptr) return step(fired, {.delta = syn(joined)});
  const Array kept = decay(tau_syn_).decimal() * g->value();
  g->set(kept + syn(joined));
  return step(fired, {.current = g->value()});
}

}  // namespace etrace::nn
