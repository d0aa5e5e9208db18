#include "data/events.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/text_file.h"

namespace etrace::data {

std::vector<CameraEvent> read_nmnist_events(std::string_view bytes, const std::string& path,
                                            std::uint32_t width, std::uint32_t height) {
  // 40 bits, big-endian: x 8, y 8, polarity 1, time 23. A y of 240 is no event: later times move by 2^13 µs.
  constexpr std::size_t kSize = 5;
  constexpr std::uint64_t kOverflow = 240;
  if (bytes.size() % kSize != 0)
    bad_byte(path, bytes.size() / kSize * kSize,
             fmt::format("{} bytes are left over: an event has 5", bytes.size() % kSize));
  Bytes in(bytes, path);
  std::vector<CameraEvent> out;
  std::int64_t moved = 0;
  while (in.left() > 0) {
    const std::size_t start = in.at();
    const std::uint64_t e = in.big(kSize, "an event"), x = e >> 32U, y = e >> 24U & 0xffU;
    if (y == kOverflow) {
      moved += 1 << 13;
      continue;
    }
    if (x >= width || y >= height)
      bad_byte(path, start,
               fmt::format("an event at ({}, {}), outside of the frame of {} × {}", x, y, width, height));
    out.push_back({static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), (e >> 23U & 1U) != 0,
                   static_cast<std::int64_t>(e & 0x7fffffU) + moved});
  }
  return out;
}

namespace {

// Lines that begin with '#', up to #!END-HEADER.
void skip_aedat_header(Bytes& in, std::string_view bytes, const std::string& path) {
  constexpr std::string_view kFirst = "#!AER-DAT3.1", kEnd = "#!END-HEADER";
  if (!bytes.starts_with(kFirst)) bad_byte(path, 0, "an AEDAT 3.1 file begins with #!AER-DAT3.1");
  for (;;) {
    const std::size_t end = bytes.find('\n', in.at());
    if (end == std::string_view::npos || bytes[in.at()] != '#')
      in.fail("the header ends without #!END-HEADER");
    const bool last = bytes.substr(in.at()).starts_with(kEnd);
    in.skip(end + 1 - in.at(), "the header");
    if (last) return;
  }
}

struct Packet {
  std::int64_t type, size, time_offset, overflow, capacity, number;
};

Packet read_packet(Bytes& in) {
  constexpr const char* kWhat = "the header of a packet";
  const auto i16 = [&] { return static_cast<std::int16_t>(in.little(2, kWhat)); };
  const auto i32 = [&] { return static_cast<std::int32_t>(in.little(4, kWhat)); };
  Packet p{};
  p.type = i16();
  i16();
  p.size = i32();
  p.time_offset = i32();
  p.overflow = i32();
  p.capacity = i32();
  p.number = i32();
  i32();
  if (p.size <= 0 || p.capacity < 0 || p.number < 0 || p.number > p.capacity || p.overflow < 0)
    in.fail(fmt::format("a packet of {} events of {} bytes, {} of them used", p.capacity, p.size, p.number));
  in.need(static_cast<std::uint64_t>(p.size) * static_cast<std::uint64_t>(p.capacity), "a packet");
  return p;
}

}  // namespace

std::vector<CameraEvent> read_aedat31(std::string_view bytes, const std::string& path, std::uint32_t width,
                                      std::uint32_t height) {
  constexpr std::int64_t kPolarity = 1, kPolaritySize = 8;
  Bytes in(bytes, path);
  skip_aedat_header(in, bytes, path);
  std::vector<CameraEvent> out;
  while (in.left() > 0) {
    const Packet p = read_packet(in);
    if (p.type != kPolarity) {
      in.skip(static_cast<std::size_t>(p.size * p.capacity), "a packet");
      continue;
    }
    if (p.size != kPolaritySize) in.fail(fmt::format("polarity events of {} bytes; expected 8", p.size));
    for (std::int64_t i = 0; i < p.capacity; ++i) {
      const std::size_t start = in.at();
      const auto data = static_cast<std::uint32_t>(in.little(4, "an event"));
      const auto time = static_cast<std::int64_t>(in.little(4, "an event"));
      if (i >= p.number || (data & 1U) == 0) continue;  // not used, or not valid
      const std::uint32_t x = data >> 17U, y = data >> 2U & 0x7fffU;
      if (x >= width || y >= height)
        bad_byte(path, start,
                 fmt::format("an event at ({}, {}), outside of the frame of {} × {}", x, y, width, height));
      out.push_back({x, y, (data & 2U) != 0, p.overflow << 31U | time});
    }
  }
  return out;
}

std::int64_t channels_of(const Binning& b) {
  const std::int64_t w = (b.width + b.pool - 1) / b.pool, h = (b.height + b.pool - 1) / b.pool;
  return 2 * w * h;
}

std::vector<Event> binned(const std::vector<CameraEvent>& events, const Binning& b, std::size_t& late,
                          std::int64_t& steps) {
  const std::uint32_t w = (b.width + b.pool - 1) / b.pool, h = (b.height + b.pool - 1) / b.pool;
  std::int64_t first = events.empty() ? 0 : events.front().time, last = first;
  for (const CameraEvent& e : events) {
    first = std::min(first, e.time);
    last = std::max(last, e.time);
  }
  steps = b.bin_us == 0 ? b.steps : std::clamp<std::int64_t>((last - first) / b.bin_us + 1, 1, b.steps);
  std::vector<Event> out;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const CameraEvent& e = events[i];
    const std::int64_t step =
        b.bin_us == 0 ? static_cast<std::int64_t>(i) * steps / static_cast<std::int64_t>(events.size())
                      : (e.time - first) / b.bin_us;
    if (step >= steps) {
      ++late;
      continue;
    }
    const std::uint32_t channel = ((e.on ? 1U : 0U) * h + e.y / b.pool) * w + e.x / b.pool;
    out.push_back({static_cast<std::uint32_t>(step), channel});
  }
  return out;
}

}  // namespace etrace::data
