// Where results go: standard output, of which nothing may be lost unnoticed, and files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace etrace::cli {

// Flushes standard output and closes it. False, with a word on standard error, if any of what was written to
// it since the program began did not arrive.
bool finish_standard_output();

// The text to a file, and a line that says so; or to standard output.
void write_output(const std::string& path, std::string_view text);

// A file that an option names. Empty paths and standard output are no files.
struct NamedFile {
  const char* option;
  const std::string& path;
};
// ValueError if two of them are the same file, also by another spelling, through links, or by being hard
// links of one another. Devices and pipes may be named twice.
void require_different_files(std::string_view stage, const std::vector<NamedFile>&);

// IoError if no file can be written under that name: what would only fail after the work is asked before it.
void require_writable(std::string_view stage, const NamedFile&);

}  // namespace etrace::cli
