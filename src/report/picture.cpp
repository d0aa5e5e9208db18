#include "report/picture.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "report/explain_drawing.h"

namespace etrace::page {

namespace {

constexpr int kLevels = 127;  // of each sign; the colour 0 is clear

void put_number(std::string& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(value >> shift & 0xffU);
}

// A chunk of a PNG: length, name, content, checksum.
void put_chunk(std::string& out, const std::string& name, const std::string& content) {
  put_number(out, static_cast<std::uint32_t>(content.size()));
  const std::string checked = name + content;
  out += checked;
  put_number(out, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(checked.data()),
                                                   static_cast<uInt>(checked.size()))));
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                bytes.size(), Z_BEST_COMPRESSION) != Z_OK)
    throw std::runtime_error("zlib has no memory for a picture");
  out.resize(size);
  return out;
}

// The colour of a value: 1 to 127 below zero, 128 to 254 above it.
char colour_of(float value, float most) {
  if (!(most > 0.0F) || !std::isfinite(value)) return 0;
  const auto level = static_cast<int>(std::lround(kLevels * std::min(std::abs(value) / most, 1.0F)));
  if (level == 0) return 0;
  return static_cast<char>(value < 0.0F ? level : kLevels + level);
}

std::string png(const RunPage::Picture& p, const std::vector<float>& values, float most) {
  std::string head, palette(3, '\0'), alpha(1, '\0'), rows, out("\x89PNG\r\n\x1a\n", 8);
  put_number(head, static_cast<std::uint32_t>(p.columns));
  put_number(head, static_cast<std::uint32_t>(p.rows));
  head += std::string("\x08\x03\0\0\0", 5);  // 8 bits, a palette
  for (const std::string& colour : {std::string("\xd9\x77\x1a"), std::string("\x3b\x74\xe0")})
    for (int level = 1; level <= kLevels; ++level) {
      palette += colour;
      alpha += static_cast<char>(255 * level / kLevels);
    }
  for (std::size_t r = 0; r < p.rows; ++r) {
    rows += '\0';  // no filter
    for (std::size_t c = 0; c < p.columns; ++c) rows += colour_of(values[r * p.columns + c], most);
  }
  put_chunk(out, "IHDR", head);
  put_chunk(out, "PLTE", palette);
  put_chunk(out, "tRNS", alpha);
  put_chunk(out, "IDAT", compressed(rows));
  put_chunk(out, "IEND", "");
  return out;
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63U];
  }
  return out;
}

}  // namespace

std::string picture_html(const RunPage::Picture& p) {
  float most = 0.0F;
  for (const auto& values : p.samples)
    for (const float v : values)
      if (std::isfinite(v)) most = std::max(most, std::abs(v));
  const std::string title = escape_html(p.title), text = escape_html(p.text);
  std::string images;
  for (std::size_t i = 0; i < p.samples.size(); ++i)
    images += fmt::format("<img alt=\"{}, sample {}\" src=\"data:image/png;base64,{}\" style=\"height:{}px\">", title,
                          i + 1, base64(png(p, p.samples[i], most)), std::clamp<std::size_t>(3 * p.rows, 48, 260));
  return fmt::format("<figure class=\"picture\"><figcaption>{}: {}</figcaption><div>{}</div></figure>", title, text,
                     images);
}

}  // namespace etrace::page
