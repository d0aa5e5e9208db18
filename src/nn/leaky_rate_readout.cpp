#include "etrace/nn/leaky_rate_readout.h"

#include "etrace/etp.h"
#include "etrace/ops/elementwise.h"
#include "nn/check.h"

namespace etrace::nn {

LeakyRateReadout::LeakyRateReadout(std::int64_t in_size, std::int64_t out_size,
                                   const LeakyRateReadoutOptions& o)
    : Dynamics("LeakyRateReadout", out_size, o.dt, o.dtype),
      r(hidden("r", {out_size}, o.dtype)),
      W(param("W",
              [=] {
                return o.weight_init(layer_key(o.seed), {in_size, out_size}, o.dtype);
              })),
      tau_(positive("tau", o.tau)) {}

Array LeakyRateReadout::update(const Array& x) {
  require_sample("a LeakyRateReadout", x, {W.avals()[0].shape[0]});
  const Array kept = decay(tau_).decimal() * r.value();
  r.set(kept + matmul(x, W.value()));
  return r.value();
}

}  // namespace etrace::nn
