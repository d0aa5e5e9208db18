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
// A whole file, unpacked if it is gzip. ValueError: it claims to hold far more than packed data does.
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

// The pieces of a text one by one, without a list of them: for (std::string_view p : Pieces(text, ',')).
class Pieces {
 public:
  Pieces(std::string_view text, char by) : text_(text), by_(by) {}

  class Iterator {
   public:
    Iterator(std::string_view text, char by, bool ended) : rest_(text), by_(by), ended_(ended) {}
    std::string_view operator*() const { return rest_.substr(0, rest_.find(by_)); }
    Iterator& operator++() {
      const std::size_t end = rest_.find(by_);
      ended_ = end == std::string_view::npos;
      rest_.remove_prefix(ended_ ? rest_.size() : end + 1);
      return *this;
    }
    bool operator!=(const Iterator& other) const { return ended_ != other.ended_; }

   private:
    std::string_view rest_;
    char by_;
    bool ended_;
  };
  Iterator begin() const { return {text_, by_, false}; }
  Iterator end() const { return {{}, by_, true}; }

 private:
  std::string_view text_;
  char by_;
};
std::vector<std::string_view> split(std::string_view text, char by);
std::string_view trimmed(std::string_view);  // without blanks around it, and the "\r" of a line end
bool parse_number(std::string_view text, double& value);  // the whole text, blanks around it left out

// What a number of data may be. Beyond that its difference to a mean is no 32-bit float any more.
inline constexpr double kLargestNumber = 1e38;
inline bool is_data_number(double value) {
  return value >= -kLargestNumber && value <= kLargestNumber;
}  // no NaN
inline constexpr std::string_view kNoNumber = "no number from -1e38 to 1e38";

// A table cannot have more columns: each takes memory of its own.
inline constexpr std::size_t kMostColumns = std::size_t{1} << 22U;

// "a, b, c and 12 more"
std::string first_names(const std::vector<std::string>& names);

}  // namespace etrace::data
#pragma GCC visibility pop
