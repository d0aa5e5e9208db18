#include "etrace/nn/conv_cell.h"

#include "etrace/nn/cell.h"
#include "etrace/ops/numpy.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {

ConvCellOptions with_activation(ConvCellOptions options) {
  if (!options.activation) options.activation = tanh;
  return options;
}

ConvLayerOptions conv_gate(const ConvCellOptions& o) {
  return {.dilation = o.dilation,
          .weight_init = o.weight_init,
          .bias_init = o.bias_init,
          .dtype = o.dtype,
          .seed = o.seed};
}

// Of gates that keep what was (sign 1) or take in what is new (−1); `offset`: what the cell adds to them.
ConvLayerOptions timed_gate(const ConvCellOptions& o, double sign, double offset = 0.0) {
  ConvLayerOptions out = conv_gate(o);
  if (o.memory > 0.0) out.bias_init = init::chrono(o.memory, sign, -offset);
  return out;
}

Shape image_of(const Shape& in, std::int64_t channels) {
  if (in.rank() < 2)
    wrong_option("a convolutional cell",
                 "samples of shape " + to_string(in) + "; expected [space…, channels]");
  return in.with(in.rank() - 1, channels);
}
// [x, h] on the axis of channels.
Shape joined_size(const Shape& in, std::int64_t channels) { return image_of(in, in.back() + channels); }

}  // namespace

ConvRNNCell::ConvRNNCell(const Shape& in, std::int64_t out, const Dims& kernel, ConvCellOptions options)
    : options_(with_activation(std::move(options))),
      h(hidden("h", image_of(in, out), options_.dtype)),
      W(child<Conv>("W", joined_size(in, out), out, kernel, conv_gate(options_))) {}

Array ConvRNNCell::update(const Array& x) {
  h.set(options_.activation(W(join_input(x, h.value()))));
  return h.value();
}

ConvGRUCell::ConvGRUCell(const Shape& in, std::int64_t out, const Dims& kernel, ConvCellOptions options)
    : options_(with_activation(std::move(options))),
      h(hidden("h", image_of(in, out), options_.dtype)),
      Wz(child<Conv>("Wz", joined_size(in, out), out, kernel, timed_gate(options_, -1.0))),
      Wr(child<Conv>("Wr", joined_size(in, out), out, kernel, conv_gate(options_))),
      Wh(child<Conv>("Wh", joined_size(in, out), out, kernel, conv_gate(options_))) {}

Array ConvGRUCell::update(const Array& x) {
  const Array before = h.value();
  const Array xh = join_input(x, before);
  const Array z = logistic(Wz(xh));
  const Array r = logistic(Wr(xh));
  const Array candidate = options_.activation(Wh(join_input(x, r * before)));
  const Array kept = (1.0 - z) * before;
  h.set(kept + z * candidate);
  return h.value();
}

ConvLSTMCell::ConvLSTMCell(const Shape& in, std::int64_t out, const Dims& kernel, ConvCellOptions options)
    : options_(with_activation(std::move(options))),
      c(hidden("c", image_of(in, out), options_.dtype)),
      h(hidden("h", image_of(in, out), options_.dtype)),
      Wi(child<Conv>("Wi", joined_size(in, out), out, kernel, timed_gate(options_, -1.0))),
      Wg(child<Conv>("Wg", joined_size(in, out), out, kernel, conv_gate(options_))),
      Wf(child<Conv>("Wf", joined_size(in, out), out, kernel, timed_gate(options_, 1.0, 1.0))),
      Wo(child<Conv>("Wo", joined_size(in, out), out, kernel, conv_gate(options_))) {}

Array ConvLSTMCell::update(const Array& x) {
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
