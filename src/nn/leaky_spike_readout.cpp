#include "etrace/nn/leaky_spike_readout.h"

#include "etrace/etp.h"
#include "nn/check.h"

namespace etrace::nn {

LeakySpikeReadout::LeakySpikeReadout(std::int64_t in_size, std::int64_t out_size,
                                     const LeakySpikeReadoutOptions& o)
    : IF(out_size, {.tau = o.tau,
                    .dt = o.dt,
                    .V_th = o.V_th,
                    .reset = o.reset,
                    .surrogate = o.surrogate,
                    .dtype = o.dtype}),
      W(param("W", [=] {
        return o.weight_init(layer_key(o.seed), {in_size, out_size}, o.dtype);
      })) {}

Array LeakySpikeReadout::update(const Array& x) {
  require_sample("a LeakySpikeReadout", x, {W.avals()[0].shape[0]});
  const Array fired = spikes();
  return step(fired, {.current = matmul(x, W.value())});
}

}  // namespace etrace::nn
