// PNG files: their parts. That pixels are what they were is seen by a browser (tests/tools/run_page_test.py).
#include "io/png.h"

#include <gtest/gtest.h>

#include "etrace/error.h"
#include "io/tensor_file.h"

namespace etrace {
namespace {

std::uint32_t number_at(const std::string& text, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t k = 0; k < 4; ++k) out = out << 8U | static_cast<unsigned char>(text[at + k]);
  return out;
}

TEST(Png, ChunksPaletteAndPixels) {
  const std::vector<Colour> palette{{0, 0, 0, 0}, {1, 2, 3, 128}, {250, 251, 252, 255}};
  const std::string pixels("\0\1\2\2\1\0", 6), file = png(3, 2, pixels, palette);
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::vector<std::pair<std::string, std::string>> chunks;
  for (std::size_t at = 8; at < file.size();) {
    const std::uint32_t size = number_at(file, at);
    const std::string name = file.substr(at + 4, 4), content = file.substr(at + 8, size);
    EXPECT_EQ(number_at(file, at + 8 + size), crc32(name + content));
    chunks.emplace_back(name, content);
    at += 12 + size;
  }
  ASSERT_EQ(chunks.size(), 5U);
  EXPECT_EQ(chunks[0].first, "IHDR");
  EXPECT_EQ(chunks[0].second, std::string("\0\0\0\3\0\0\0\2\10\3\0\0\0", 13));
  EXPECT_EQ(chunks[1].second, std::string("\0\0\0\1\2\3\xfa\xfb\xfc", 9));
  EXPECT_EQ(chunks[2].second, std::string("\0\x80\xff", 3));
  EXPECT_EQ(chunks[4].first, "IEND");
}

TEST(Png, WhatIsNoPictureIsRefused) {
  EXPECT_THROW(png(0, 2, "", {{}}), ValueError);
  EXPECT_THROW(png(2, 2, std::string(3, '\0'), {{}}), ValueError);
  EXPECT_THROW(png(1, 1, "\1", {{}}), ValueError);
  EXPECT_THROW(png(1, 1, std::string(1, '\0'), std::vector<Colour>(257)), ValueError);
}

}  // namespace
}  // namespace etrace
