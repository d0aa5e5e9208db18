#include "etrace/nn/batch_norm.h"

#include "etrace/ops/numpy.h"
#include "nn/check.h"
#include "nn/normalize.h"

namespace etrace::nn {

namespace {
std::string batch_norm_text(const Shape& in) { return "a BatchNorm of samples " + to_string(in); }

Shape batch_norm_channels(const Shape& in, const BatchNormOptions& o) {
  if (in.rank() < 1 || in.rank() > 4)
    wrong_option(batch_norm_text(in), "expected 0 to 3 axes of space and one of channels");
  if (!(o.momentum >= 0.0 && o.momentum < 1.0))
    wrong_option(batch_norm_text(in),
                 "the momentum is " + std::to_string(o.momentum) + "; expected 0 up to less than 1");
  return {o.channel_first ? in[0] : in.back()};
}
}  // namespace

BatchNorm::BatchNorm(const Shape& in, const BatchNormOptions& o)
    : in_size(in),
      weight(o.scale || o.bias
                 ? &param("weight", scale_and_bias(batch_norm_channels(in, o), o.scale, o.bias, o.dtype))
                 : nullptr),
      running_mean(long_term("running_mean", full(batch_norm_channels(in, o), 0.0, o.dtype))),
      running_variance(long_term("running_variance", full(batch_norm_channels(in, o), 1.0, o.dtype))),
      options_(o) {}

Array BatchNorm::update(const Array& x) {
  require_sample(batch_norm_text(in_size), x, in_size);
  if (!is_batch(x, in_size.rank()))
    wrong_input(batch_norm_text(in_size), x, "a batch of them: a leading axis, of size 1 for one sample");
  const std::size_t channel = options_.channel_first ? 1 : x.rank() - 1;
  Dims axes;  // all but that of the channels
  for (std::size_t a = 0; a < x.rank(); ++a)
    if (a != channel) axes.push_back(static_cast<std::int64_t>(a));
  const Array is_training = training();
  const Array batch_mean = mean(x, axes), batch_variance = variance(x, axes);
  const auto follow = [&](LongTermState& running, const Array& now) {
    const Array before = running.value();
    running.set(where(is_training, options_.momentum * before + (1.0 - options_.momentum) * now, before));
    return where(is_training, now, before);
  };
  const Array centre = follow(running_mean, batch_mean);
  const Array spread = follow(running_variance, batch_variance);
  const Dims at{static_cast<std::int64_t>(channel)};
  const auto along = [&](const Array& v) { return broadcast_in_dim(v, x.shape(), at); };
  const Array y = (x - along(centre)) * along(rsqrt(spread + options_.epsilon));
  return scaled_and_shifted(y, weight, in_size, {at[0] - 1});
}

}  // namespace etrace::nn
