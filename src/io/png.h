// Pictures as PNG files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

// Red, green, blue and opacity.
using Colour = std::array<std::uint8_t, 4>;

// The text of a file; `pixels` row by row, each the number of a colour. ValueError: no picture, not as many
// pixels as width × height, more than 256 colours, a pixel of none.
std::string png(std::size_t width, std::size_t height, const std::string& pixels,
                const std::vector<Colour>& palette);

}  // namespace etrace
#pragma GCC visibility pop
