#include "etrace/nn/lru_cell.h"

#include <cmath>

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {
// |λ|² uniform between the squares of the radii.
Array first_nu(std::int64_t size, const LRUOptions& o) {
  if (!(0.0 <= o.r_min && o.r_min < o.r_max && o.r_max <= 1.0) || !(o.max_phase > 0.0))
    wrong_option("LRUCell", "radii " + std::to_string(o.r_min) + " and " + std::to_string(o.r_max) +
                                ", phases below " + std::to_string(o.max_phase) +
                                "; expected 0 ≤ r_min < r_max ≤ 1 and a positive phase");
  const double low = o.r_min * o.r_min, high = o.r_max * o.r_max;
  const Array u = random::uniform(random::fold_in(layer_key(o.seed), 0), {size}, o.dtype);
  const Array square = maximum(u * (high - low) + low, 1e-7);  // λ = 0 has no logarithm
  return log(-0.5 * log(minimum(square, 1.0 - 1e-6)));
}
Array first_theta(std::int64_t size, const LRUOptions& o) {
  const Array u = random::uniform(random::fold_in(layer_key(o.seed), 1), {size}, o.dtype);
  return log(o.max_phase * maximum(u, 1e-7));
}
// e^γ = √(1 − |λ|²): inputs of variance 1 give states of variance 1.
Array first_gamma(const Array& nu) { return 0.5 * log(-expm1(-2.0 * exp(nu))); }

LinearOptions lru_map(std::int64_t fan_in, const LRUOptions& o) {
  return {.weight_init = init::normal(1.0 / std::sqrt(static_cast<double>(fan_in))),
          .bias_init = {},
          .dtype = o.dtype,
          .seed = o.seed};
}
}  // namespace

LRUCell::LRUCell(std::int64_t model, std::int64_t size, const LRUOptions& o)
    : nu_log(param("nu_log", [=] { return first_nu(size, o); })),
      theta_log(param("theta_log", [=] { return first_theta(size, o); })),
      gamma_log(param("gamma_log", [=] { return first_gamma(first_nu(size, o)); })),
      h_re(hidden("h_re", {size}, o.dtype)),
      h_im(hidden("h_im", {size}, o.dtype)),
      B_re(child<Linear>("B_re", model, size, lru_map(model, o))),
      B_im(child<Linear>("B_im", model, size, lru_map(model, o))),
      C_re(child<Linear>("C_re", size, model, lru_map(size, o))),
      C_im(child<Linear>("C_im", size, model, lru_map(size, o))),
      D(param("D", [=] { return random::normal(random::fold_in(layer_key(o.seed), 2), {model}, o.dtype); })) {
}

Array LRUCell::update(const Array& x) {
  const Array radius = exp(-exp(element_wise(nu_log.value())));
  const Array phase = exp(element_wise(theta_log.value()));
  const Array gain = exp(element_wise(gamma_log.value()));
  const Array along = radius * cos(phase);
  const Array across = radius * sin(phase);
  const Array re = h_re.value();
  const Array im = h_im.value();
  const Array turned_re = along * re - across * im;
  const Array next_re = turned_re + gain * B_re(x);
  const Array turned_im = across * re + along * im;
  const Array next_im = turned_im + gain * B_im(x);
  h_re.set(next_re);
  h_im.set(next_im);
  const Array real = C_re(next_re) - C_im(next_im);
  return real + x * element_wise(D.value());
}

}  // namespace etrace::nn
