#include "etrace/nn/cell.h"

#include "etrace/error.h"
#include "etrace/ops/shape.h"

namespace etrace::nn {

CellOptions or_defaults(CellOptions options, Initializer weight_init, Activation activation) {
  if (!options.weight_init) options.weight_init = std::move(weight_init);
  if (!options.activation) options.activation = std::move(activation);
  return options;
}

LinearOptions gate_options(const CellOptions& o) {
  return {.weight_init = o.weight_init, .bias_init = o.bias_init, .dtype = o.dtype, .seed = o.seed};
}

namespace {
LinearOptions with_bias(const CellOptions& o, double sign, double offset) {
  LinearOptions out = gate_options(o);
  if (o.memory > 0.0) out.bias_init = init::chrono(o.memory, sign, offset);
  return out;
}
}  // namespace

LinearOptions keeping_gate(const CellOptions& o, double offset) { return with_bias(o, 1.0, -offset); }
LinearOptions renewing_gate(const CellOptions& o) { return with_bias(o, -1.0, 0.0); }

Array join_input(const Array& x, const Array& h) {
  const bool fits = x.rank() == h.rank() && x.rank() > 0 &&
                    std::equal(x.shape().begin(), x.shape().end() - 1, h.shape().begin());
  if (!fits)
    throw ValueError(
        "nn",
        "the input is " + to_string(x.aval()) + " but the hidden state is " + to_string(h.aval()) +
            "; where the input has a leading axis of samples, say so: compile with batch_size, or call "
            "init_all_states(model, batch)",
        OriginScope::current());
  return concatenate(Arrays{x, h}, -1);
}

}  // namespace etrace::nn
