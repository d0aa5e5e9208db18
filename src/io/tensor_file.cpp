// Names and checksums of tensor files.
#include "io/tensor_file.h"

#include <fmt/format.h>

#include <array>
#include <unordered_set>

#include "io/json.h"

namespace etrace {

namespace {

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

// table[k][b]: the remainder of byte b followed by k zero bytes, bits reversed, by the polynomial of zip.
constexpr Table crc_table() {
  Table table{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t r = b;
    for (int bit = 0; bit < 8; ++bit) r = (r >> 1) ^ ((r & 1U) != 0 ? 0xEDB88320U : 0U);
    table[0][b] = r;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 255U];
  return table;
}
constexpr Table kTable = crc_table();

}  // namespace

std::string json_string(std::string_view text, const char* stage) {
  if (!is_utf8(text))
    throw ValueError(stage, fmt::format("the name or text '{}' is not valid UTF-8; the file cannot hold it",
                                        shown_text(text)));
  return json_text(Json(text));
}

void require_savable(const Named<Tensor>& tensors, const char* stage) {
  std::unordered_set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    const std::string shown = json_string(name, stage);
    if (!names.insert(name).second)
      throw ValueError(stage, fmt::format("the name {} is given to two tensors; name them apart", shown));
    if (!tensor.defined())
      throw ValueError(stage,
                       fmt::format("the tensor {} has no data; give it a value or leave it out", shown));
  }
}

void require_booleans(const Tensor& tensor, const std::string& name, const char* stage) {
  if (tensor.dtype() != Dtype::Bool) return;
  const std::string_view bytes = bytes_of(tensor);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (const auto b = static_cast<unsigned char>(bytes[i]); b > 1)
      throw CompilationError(
          stage, fmt::format("{}: element {} is the byte {}, expected 0 or 1 for bool", name, i, b));
}

// Eight bytes at a time: their remainders come from eight tables and are independent of each other.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  std::uint32_t r = ~before;
  auto fold = [](std::uint32_t word, std::size_t k) {
    return kTable[k][word & 255U] ^ kTable[k - 1][(word >> 8) & 255U] ^ kTable[k - 2][(word >> 16) & 255U] ^
           kTable[k - 3][word >> 24];
  };
  while (bytes.size() >= 8) {
    r = fold(number_at<std::uint32_t>(bytes, 0) ^ r, 7) ^ fold(number_at<std::uint32_t>(bytes, 4), 3);
    bytes.remove_prefix(8);
  }
  for (const char c : bytes) r = (r >> 8) ^ kTable[0][(r ^ static_cast<unsigned char>(c)) & 255U];
  return ~r;
}

}  // namespace etrace
