// Bytes of data files in their true formats, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace etrace::data::written {

inline std::string big(std::uint64_t value, int bytes) {
  std::string out;
  for (int k = bytes - 1; k >= 0; --k) out.push_back(static_cast<char>(value >> (8 * k) & 0xff));
  return out;
}
inline std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int k = 0; k < bytes; ++k) out.push_back(static_cast<char>(value >> (8 * k) & 0xff));
  return out;
}
// gzip with one stored block.
inline std::string gzipped(const std::string& text) {
  std::uint32_t crc = ~0U;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x01", 11) + little(text.size(), 2) +
         little(~text.size() & 0xffff, 2) + text + little(~crc, 4) + little(text.size(), 4);
}

inline std::string wav(const std::string& sound, int tag = 1, int bits = 16, const std::string& before = {}) {
  const int block = bits / 8;
  return "RIFF" + little(36 + sound.size(), 4) + "WAVE" + before + "fmt " + little(16, 4) +
         little(static_cast<std::uint64_t>(tag), 2) + little(1, 2) + little(8000, 4) +
         little(static_cast<std::uint64_t>(8000 * block), 4) + little(static_cast<std::uint64_t>(block), 2) +
         little(static_cast<std::uint64_t>(bits), 2) + "data" + little(sound.size(), 4) + sound;
}

inline std::string aedat(const std::vector<std::array<std::uint32_t, 5>>& events) {  // valid, on, y, x, time
  std::string packet;
  for (const auto& e : events)
    packet += little(e[0] | e[1] << 1 | e[2] << 2 | e[3] << 17, 4) + little(e[4], 4);
  const auto n = events.size();
  const auto header = [](int type, std::uint64_t size, std::uint64_t count) {
    return little(static_cast<std::uint64_t>(type), 2) + little(0, 2) + little(size, 4) + little(4, 4) +
           little(0, 4) + little(count, 4) + little(count, 4) + little(count, 4);
  };
  return "#!AER-DAT3.1\r\n#Format: RAW\r\n#!END-HEADER\r\n" + header(0, 4, 1) + "skip" + header(1, 8, n) +
         packet;
}

}  // namespace etrace::data::written
