// Bytes and lines of data files, with errors that say the file and the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::data {

// ValueError "'FILE', byte 17: WHAT".
[[noreturn]] void bad_byte(const std::string& path, std::size_t offset, const std::string& what);
// ValueError "'FILE', line 17: WHAT".
[[noreturn]] void bad_line(const std::string& path, std::size_t line, const std::string& what);

bool is_gzip(std::string_view bytes);
// ValueError: it is damaged, ends too early, or is larger than `most` unpacked.
std::string gunzip(std::string_view packed, const std::string& path,
                   std::size_t most = std::size_t{4} << 30U);
// A whole file, unpacked if it is gzip.
std::string read_unpacked(const std::string& path);

// Numbers of a file in either order of bytes. Reading past the end is an error with the offset.
class Bytes {
 public:
  Bytes(std::string_view data, std::string path) : data_(data), path_(std::move(path)) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return data_.size() - at_; }
  void need(std::uint64_t bytes, const char* what) const;  // error unless so many are left
  std::string_view take(std::size_t bytes, const char* what);
  void skip(std::size_t bytes, const char* what) { take(bytes, what); }
  std::uint64_t big(std::size_t bytes, const char* what);
  std::uint64_t little(std::size_t bytes, const char* what);
  [[noreturn]] void fail(const std::string& what) const { bad_byte(path_, at_, what); }

 private:
  std::string_view data_;
  std::string path_;
  std::size_t at_ = 0;
};

// Lines without their ends ("\n" or "\r\n").
std::vector<std::string_view> lines_of(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char by);
std::string_view trimmed(std::string_view);
bool parse_number(std::string_view text, double& value);  // the whole text, blanks around it left out

}  // namespace etrace::data
#pragma GCC visibility pop
