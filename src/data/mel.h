// Sounds and their mel features.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::data {

struct Sound {
  double rate = 0.0;           // samples per second
  std::vector<double> values;  // -1 … 1, the mean of the channels
};
// ValueError names the file and the byte.
Sound read_wav(const std::string& path);

struct MelOptions {
  std::int64_t mels = 40;
  double window_ms = 25.0, hop_ms = 10.0;
};
// [frames, mels]: the logarithm of the energy in each triangle. A sound shorter than a window is one frame.
std::vector<float> mel_features(const Sound&, const MelOptions&);

}  // namespace etrace::data
#pragma GCC visibility pop
