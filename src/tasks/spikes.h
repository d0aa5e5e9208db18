// Spike trains of channels: each spikes in a step with a probability of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "etrace/array.h"

namespace etrace {

// A channel spikes if 32 random bits lie below this: whole numbers, so that no rounding decides.
using SpikeLimit = std::uint64_t;
using SpikeLimits = std::vector<SpikeLimit>;  // one per channel
SpikeLimit spike_limit(double probability);

// f32[steps, batch, channels]; `at` gives the limits of all channels in a step of a sample.
Tensor spike_trains(const Array& key, const Shape& steps_batch_channels,
                    const std::function<const SpikeLimits&(std::int64_t step, std::int64_t sample)>& at);

}  // namespace etrace
