// Recordings of event cameras: decoding, and time into steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/reader.h"

#pragma GCC visibility push(default)
namespace etrace::data {

struct CameraEvent {
  std::uint32_t x, y;
  bool on;
  std::int64_t time;  // µs
};

// N-MNIST, N-Caltech101: 5 bytes per event. ValueError: the size is no multiple of 5, a place outside of the
// frame.
std::vector<CameraEvent> read_nmnist_events(std::string_view bytes, const std::string& path,
                                            std::uint32_t width, std::uint32_t height);
// AEDAT 3.1: the valid polarity events of all packets.
std::vector<CameraEvent> read_aedat31(std::string_view bytes, const std::string& path, std::uint32_t width,
                                      std::uint32_t height);

// How time becomes steps, and a place a channel.
struct Binning {
  std::uint32_t width = 0, height = 0;
  std::uint32_t pool = 1;   // so many pixels in both directions are one
  std::int64_t bin_us = 0;  // µs of a step; 0: `steps` frames of equal count of events
  std::int64_t steps = 0;   // with bin_us: the most steps, later events are left out and counted
};
std::int64_t channels_of(const Binning&);  // 2 · height · width after pooling
// Times count from the first event. `late`: events behind the last step.
std::vector<Event> binned(const std::vector<CameraEvent>&, const Binning&, std::size_t& late,
                          std::int64_t& steps);

}  // namespace etrace::data
#pragma GCC visibility pop
