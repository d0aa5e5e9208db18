#include "tasks/spikes.h"

#include <algorithm>
#include <cmath>

#include "etrace/random.h"

namespace etrace {

SpikeLimit spike_limit(double probability) {
  return static_cast<SpikeLimit>(std::llround(std::clamp(probability, 0.0, 1.0) * 0x1p32));
}

Tensor spike_trains(const Array& key, const Shape& shape,
                    const std::function<const SpikeLimits&(std::int64_t step, std::int64_t sample)>& at) {
  const Tensor bits = random::bits(key, shape).tensor();
  Tensor result = Tensor::uninitialized({Dtype::F32, shape});
  const std::uint32_t* in = bits.data<std::uint32_t>().data();
  auto* out = reinterpret_cast<float*>(result.writable());
  for (std::int64_t t = 0; t < shape[0]; ++t)
    for (std::int64_t b = 0; b < shape[1]; ++b)
      for (const SpikeLimit limit : at(t, b)) *out++ = *in++ < limit ? 1.0F : 0.0F;
  return result;
}

}  // namespace etrace
