#include "etrace/nn/leaky_rate_readout.h"

#include "etrace/etp.h"
#include "etrace/ops/elementwise.h"
#include "nn/decay.h"

namespace etrace::nn {

LeakyRateReadout::LeakyRateReadout(std::int64_t in_size, std::int64_t out_size,
                                   const LeakyRateReadoutOptions& o)
    : r(hidden("r", {out_size}, o.dtype)),
      W(param("W", o.weight_init(layer_key(o.seed), {in_size, out_size}, o.dtype))),
      decay_(decay("LeakyRateReadout", o.dt, o.tau)) {}

Array LeakyRateReadout::update(const Array& x) {
  const Array kept = decay_ * r.value();
  r.set(kept + matmul(x, W.value()));
  return r.value();
}

}  // namespace etrace::nn
