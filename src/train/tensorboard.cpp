// The file format (little-endian): u64 length, u32 masked CRC of it, data, u32 masked CRC of the data.
// Messages are protocol buffers: Event {1 wall_time double, 2 step varint, 3 file_version, 5 summary},
// Summary {1 value …}, Value {1 tag, 2 simple_value float}.
#include "train/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <filesystem>

#include "etrace/error.h"

namespace etrace::train {

namespace {

// CRC-32C (Castagnoli), reflected.
std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = ~0U;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}
std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(data);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

template <class Integer>
void append_fixed(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    out.push_back(static_cast<char>((value >> (8U * static_cast<unsigned>(i))) & 0xffU));
}
void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
  out.push_back(static_cast<char>(value));
}

enum Wire : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void append_key(std::string& out, unsigned field, Wire wire) { append_varint(out, field << 3U | wire); }
void append_bytes(std::string& out, unsigned field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double seconds) {
  std::string event;
  append_key(event, 1, kFixed64);
  append_fixed(event, std::bit_cast<std::uint64_t>(seconds));
  return event;
}

std::string record(std::string_view data) {
  std::string length, out;
  append_fixed(length, static_cast<std::uint64_t>(data.size()));
  out = length;
  append_fixed(out, masked_crc(length));
  out += data;
  append_fixed(out, masked_crc(data));
  return out;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

}  // namespace

std::string version_record(double seconds) {
  std::string event = event_at(seconds);
  append_bytes(event, 3, "brain.Event:2");
  return record(event);
}

std::string scalar_record(double seconds, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    append_bytes(value, 1, tag);
    append_key(value, 2, kFixed32);
    append_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    append_bytes(summary, 1, value);
  }
  std::string event = event_at(seconds);
  append_key(event, 2, kVarint);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 5, summary);
  return record(event);
}

EventFile::EventFile(const std::string& folder) {
  const double seconds = now();
  for (int n = 0;; ++n) {
    path_ = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, static_cast<std::int64_t>(seconds),
                        host(), getpid(), n);
    if (!std::filesystem::exists(path_)) break;
  }
  file_.open(path_, std::ios::binary);
  file_ << version_record(seconds) << std::flush;
  if (!file_) throw IoError("train", fmt::format("'{}' cannot be written", path_));
}

void EventFile::write(std::int64_t step, const Scalars& scalars) {
  if (path_.empty()) return;
  file_ << scalar_record(now(), step, scalars) << std::flush;
  if (!file_) throw IoError("train", fmt::format("'{}' could not be written; is the disk full?", path_));
}

}  // namespace etrace::train
