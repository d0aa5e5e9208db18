// What the formats of tensor files share. Private to the library.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "etrace/error.h"
#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace {

static_assert(std::endian::native == std::endian::little,
              "both formats are little-endian, and so are tensors");

// ValueError: a name twice or not UTF-8, a tensor without data.
void require_savable(const Named<Tensor>&, const char* stage);
// The text as a JSON string. ValueError: not UTF-8.
std::string json_string(std::string_view text, const char* stage);

// CompilationError: a byte of a bool other than 0 and 1.
void require_booleans(const Tensor&, const std::string& name, const char* stage);

// CRC-32 of zip archives. Continues from the checksum of what came before.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

// A number at a place that the caller knows to lie inside.
template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
void append_bytes(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}
inline std::string_view bytes_of(const Tensor& t) {
  return {reinterpret_cast<const char*>(t.bytes()), t.aval().bytes()};
}

// Runs `read`; its errors get the stage, and the name of the file in front.
template <class F>
auto naming_file(const char* stage, const std::string& source, F read) {
  try {
    return read();
  } catch (const CompilationError& e) {
    throw CompilationError(stage, source + ": " + e.message());
  } catch (const NotSupportedError& e) {
    throw NotSupportedError(stage, source + ": " + e.message());
  }
}

}  // namespace etrace
#pragma GCC visibility pop
