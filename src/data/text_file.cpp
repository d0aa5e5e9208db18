#include "data/text_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/utf8.h"
#include "etrace/error.h"

namespace etrace::data {

void bad_byte(const std::string& path, std::size_t offset, const std::string& what) {
  throw ValueError("data", fmt::format("'{}', byte {}: {}", path, offset, what));
}
void bad_line(const std::string& path, std::size_t line, const std::string& what) {
  throw ValueError("data", fmt::format("'{}', line {}: {}", path, line, what));
}

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view packed, const std::string& path, std::size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) bad_byte(path, 0, "zlib could not start");
  std::string out;
  std::size_t consumed = 0;
  const auto fail = [&](const std::string& what) {
    inflateEnd(&stream);
    bad_byte(path, consumed, what);
  };
  std::string block(std::size_t{1} << 16U, '\0');
  for (int status = Z_OK; status != Z_STREAM_END || consumed < packed.size();) {
    if (status == Z_STREAM_END) inflateReset(&stream);  // members may follow each other
    const std::size_t give = std::min<std::size_t>(packed.size() - consumed, std::size_t{1} << 30U);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + consumed));
    stream.avail_in = static_cast<uInt>(give);
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    consumed += give - stream.avail_in;
    out.append(block, 0, block.size() - stream.avail_out);
    if (status == Z_BUF_ERROR || (status == Z_OK && stream.avail_in == 0 && stream.avail_out != 0))
      fail("the packed data ends before its end");
    if (status != Z_OK && status != Z_STREAM_END) fail("the packed data is damaged");
    if (out.size() > most)
      fail(fmt::format("it holds more than {} bytes unpacked; unpack it if that is meant", most));
  }
  inflateEnd(&stream);
  return out;
}

std::string read_unpacked(const std::string& path) {
  std::string bytes = read_file(path);
  if (!is_gzip(bytes)) return bytes;
  // Data that is read is packed to a tenth, sparse tables to a hundredth; deflate reaches a thousandth.
  constexpr std::size_t kSmall = std::size_t{64} << 20U, kMostRatio = 128, kMost = std::size_t{4} << 30U;
  return gunzip(bytes, path, std::min(kMost, kSmall + kMostRatio * bytes.size()));
}

void Bytes::need(std::uint64_t bytes, const char* what) const {
  if (bytes > left())
    fail(fmt::format("the file ends within {}: {} bytes are left, {} expected", what, left(), bytes));
}

std::string_view Bytes::take(std::size_t bytes, const char* what) {
  need(bytes, what);
  const std::string_view out = data_.substr(at_, bytes);
  at_ += bytes;
  return out;
}

std::uint64_t Bytes::big(std::size_t bytes, const char* what) {
  std::uint64_t value = 0;
  for (const char c : take(bytes, what)) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

std::uint64_t Bytes::little(std::size_t bytes, const char* what) {
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : take(bytes, what)) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(c)) << shift;
    shift += 8;
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (const std::string_view piece : Pieces(text, by)) out.push_back(piece);
  return out;
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kMost; ++i)
    out += (i == 0 ? "" : ", ") + shown_text(names[i]);
  return names.size() <= kMost ? out : fmt::format("{} and {} more", out, names.size() - kMost);
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool parse_number(std::string_view text, double& value) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && stop == text.data() + text.size();
}

}  // namespace etrace::data
