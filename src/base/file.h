// Whole files: read at once, replaced as a whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace etrace {

// IoError names the file and the reason; also for a file larger than max_bytes.
std::string read_file(const std::string& path, std::size_t max_bytes = std::size_t{4} << 30);

// Either the whole text is on disk under that name, or the old file is as it was and IoError says why.
void write_file(const std::string& path, std::string_view text);

inline constexpr std::string_view kStandardOutput = "-";  // as the name of a file

}  // namespace etrace
#pragma GCC visibility pop
