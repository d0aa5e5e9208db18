#include "report/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "io/png.h"
#include "report/explain_drawing.h"

namespace etrace::page {

namespace {

// The colour 0 is clear; 1 to 127 are below zero, the next 127 above it, both ever less clear.
constexpr int kLevels = 127;

std::vector<Colour> palette() {
  std::vector<Colour> out{{0, 0, 0, 0}};
  for (const Colour& full : {Colour{0xd9, 0x77, 0x1a, 255}, Colour{0x3b, 0x74, 0xe0, 255}})
    for (int level = 1; level <= kLevels; ++level)
      out.push_back({full[0], full[1], full[2], static_cast<std::uint8_t>(255 * level / kLevels)});
  return out;
}

char colour_of(float value, float most) {
  if (!(most > 0.0F) || !std::isfinite(value)) return 0;
  const auto level = static_cast<int>(std::lround(kLevels * std::min(std::abs(value) / most, 1.0F)));
  if (level == 0) return 0;
  return static_cast<char>(value < 0.0F ? level : kLevels + level);
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
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
  for (std::size_t i = 0; i < p.samples.size(); ++i) {
    std::string pixels;
    for (const float v : p.samples[i]) pixels += colour_of(v, most);
    images += fmt::format(
        "<img alt=\"{}, sample {}\" src=\"data:image/png;base64,{}\" style=\"height:{}px\">", title, i + 1,
        base64(png(p.columns, p.rows, pixels, palette())), std::clamp<std::size_t>(3 * p.rows, 48, 260));
  }
  return fmt::format("<figure class=\"picture\"><figcaption>{}: {}</figcaption><div>{}</div></figure>", title,
                     text, images);
}

}  // namespace etrace::page
