#include "io/png.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "etrace/error.h"
#include "io/tensor_file.h"

namespace etrace {

namespace {

void put_number(std::string& out, std::uint32_t value) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) out += static_cast<char>(value >> shift & 0xffU);
}

// Length, name, content, checksum.
void put_chunk(std::string& out, const std::string& name, const std::string& content) {
  put_number(out, static_cast<std::uint32_t>(content.size()));
  out += name + content;
  put_number(out, crc32(name + content));
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                bytes.size(), Z_BEST_COMPRESSION);
  if (status != Z_OK) throw InternalError("png", fmt::format("zlib ended with {}", status));
  out.resize(size);
  return out;
}

}  // namespace

std::string png(std::size_t width, std::size_t height, const std::string& pixels,
                const std::vector<Colour>& palette) {
  const auto is_none = [&](char p) { return static_cast<unsigned char>(p) >= palette.size(); };
  if (width == 0 || height == 0 || pixels.size() != width * height || palette.size() > 256 ||
      std::ranges::any_of(pixels, is_none))
    throw ValueError("png", fmt::format("{} pixels of {} colours are no picture of {} × {}", pixels.size(),
                                        palette.size(), width, height));
  std::string head, colours, opacities, rows, out("\x89PNG\r\n\x1a\n", 8);
  put_number(head, static_cast<std::uint32_t>(width));
  put_number(head, static_cast<std::uint32_t>(height));
  head += std::string("\x08\x03\0\0\0", 5);  // 8 bits each, of a palette; no interlace
  for (const Colour& c : palette) {
    colours.append({static_cast<char>(c[0]), static_cast<char>(c[1]), static_cast<char>(c[2])});
    opacities += static_cast<char>(c[3]);
  }
  for (std::size_t r = 0; r < height; ++r) rows += '\0' + pixels.substr(r * width, width);  // no filter
  put_chunk(out, "IHDR", head);
  put_chunk(out, "PLTE", colours);
  put_chunk(out, "tRNS", opacities);
  put_chunk(out, "IDAT", compressed(rows));
  put_chunk(out, "IEND", "");
  return out;
}

}  // namespace etrace
