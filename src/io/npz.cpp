// Reading and writing of NumPy's files: first one array, then the archive.
#include "io/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <unordered_set>

#include "io/tensor_file.h"

namespace etrace {

namespace {

constexpr const char* kStage = "npz";

// One array: magic, version, length of the header, the header as a Python dictionary, the numbers
// ------------
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  // of the numbers in the file

struct Spelling {
  Dtype dtype;
  std::string_view text;
};
constexpr Spelling kDtypes[] = {{Dtype::Bool, "|b1"}, {Dtype::I32, "<i4"}, {Dtype::I64, "<i8"},
                                {Dtype::U32, "<u4"},  {Dtype::F16, "<f2"}, {Dtype::F32, "<f4"},
                                {Dtype::F64, "<f8"}};

[[noreturn]] void fail(const std::string& name, const std::string& message) {
  throw CompilationError(kStage, name + ": " + message);
}

// Integers that are narrower than any a tensor can have: they are read as i32.
template <class T>
std::string as_i32(std::string_view data) {
  std::string out;
  out.reserve(data.size() / sizeof(T) * sizeof(std::int32_t));
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T))
    append_bytes(out, static_cast<std::int32_t>(number_at<T>(data, at)));
  return out;
}
struct Narrow {
  std::string_view text;
  std::size_t width;
  std::string (*widened)(std::string_view data);
};
constexpr Narrow kNarrow[] = {{"|u1", 1, as_i32<std::uint8_t>},
                              {"|i1", 1, as_i32<std::int8_t>},
                              {"<u2", 2, as_i32<std::uint16_t>},
                              {"<i2", 2, as_i32<std::int16_t>}};
const Narrow* narrow(const std::string& descr) {
  const auto* found =
      std::find_if(std::begin(kNarrow), std::end(kNarrow), [&](const Narrow& n) { return n.text == descr; });
  return found == std::end(kNarrow) ? nullptr : found;
}

Dtype read_dtype(const std::string& descr, const std::string& name) {
  for (const Spelling& s : kDtypes)
    if (s.text == descr) return s.dtype;
  if (narrow(descr) != nullptr) return Dtype::I32;
  // LIMIT: little-endian element types that a tensor can hold; uint64, complex … are not converted.
  const bool is_object = descr.find('O') != std::string::npos;
  const char* kind = descr.starts_with('>') ? "big-endian " : "";
  throw NotSupportedError(
      kStage,
      fmt::format("{}: the {}element type '{}'{} is not supported; convert the array, for example with "
                  ".astype('<f4')",
                  name, kind, descr, is_object ? " (Python objects)" : ""));
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: the keys in any order, nothing else.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void read() {
    expect('{');
    while (!accept('}')) {
      const std::string key = text();
      expect(':');
      if (key == "descr")
        set(descr_, key, element_type());
      else if (key == "fortran_order")
        set(fortran_order_, key, boolean());
      else if (key == "shape")
        set(shape_, key, dims());
      else
        error("found the key '" + key + "', expected descr, fortran_order or shape");
      if (accept('}')) break;
      expect(',');
    }
    if (peek() != '\0' || at_ != text_.size()) error("expected nothing after the dictionary");
    if (!descr_ || !fortran_order_ || !shape_) error("expected descr, fortran_order and shape");
  }
  const std::string& descr() const { return *descr_; }
  bool fortran_order() const { return *fortran_order_; }
  const Dims& shape() const { return *shape_; }

 private:
  [[noreturn]] void error(const std::string& message) const {
    fail(name_, fmt::format("header, character {}: {}", at_, message));
  }
  template <class T>
  void set(std::optional<T>& field, const std::string& key, T value) {
    if (field) error("the key '" + key + "' is given twice");
    field = std::move(value);
  }
  char peek() {  // past blanks; '\0' at the end
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) error(fmt::format("expected '{}'", c));
  }
  bool accept(std::string_view word) {
    peek();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::string text() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') error("expected a text in quotes");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) error("the text has no end");
    const std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    if (!std::all_of(found.begin(), found.end(), [](char c) { return c >= ' ' && c <= '~' && c != '\\'; }))
      error("the text holds a character that no name or element type has");
    at_ = end + 1;
    return std::string(found);
  }
  std::string element_type() {
    if (peek() == '[' || peek() == '(')
      throw NotSupportedError(kStage, name_ +
                                          ": a structured element type is not supported; save each of its "
                                          "fields as an array of its own");
    return text();
  }
  bool boolean() {
    if (accept("True")) return true;
    if (!accept("False")) error("expected True or False");
    return false;
  }
  Dims dims() {
    Dims out;
    expect('(');
    while (!accept(')')) {
      peek();
      std::int64_t n = 0;
      const char* begin = text_.data() + at_;
      const auto result = std::from_chars(begin, text_.data() + text_.size(), n);
      if (result.ec != std::errc{}) error("expected a size that fits into 64 bits");
      at_ += static_cast<std::size_t>(result.ptr - begin);
      out.push_back(n);
      if (accept(')')) break;
      expect(',');
    }
    return out;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<Dims> shape_;
};

// The first axis runs fastest in the data, the last one in the tensor.
Tensor from_fortran_order(const Aval& aval, std::string_view data) {
  Tensor out = Tensor::uninitialized(aval);
  const std::size_t width = size_of(aval.dtype), rank = aval.shape.rank();
  Dims stride(rank, 1), index(rank, 0);
  for (std::size_t a = 1; a < rank; ++a) stride[a] = stride[a - 1] * aval.shape[a - 1];
  std::int64_t from = 0;
  for (std::int64_t to = 0; to < aval.shape.size(); ++to) {
    std::memcpy(out.writable() + static_cast<std::size_t>(to) * width,
                data.data() + static_cast<std::size_t>(from) * width, width);
    for (std::size_t a = rank; a-- > 0;) {
      from += stride[a];
      if (++index[a] < aval.shape[a]) break;
      from -= stride[a] * std::exchange(index[a], 0);
    }
  }
  return out;
}

std::string header_text(const Tensor& tensor, const std::string& name) {
  const auto* spelled = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                     [&](const Spelling& s) { return s.dtype == tensor.dtype(); });
  if (spelled == std::end(kDtypes))
    throw NotSupportedError(kStage, fmt::format("{}: NumPy has no type for {}; save a .safetensors file, or "
                                                "convert the tensor to float32",
                                                name, to_string(tensor.aval())));
  std::string dims;
  for (const std::int64_t n : tensor.shape()) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", n);
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", spelled->text, dims,
                     tensor.shape().rank() == 1 ? "," : "");
}

// The archive: local header and data of each file, then the directory, then the end record -----------------
constexpr std::uint32_t kLocalMark = 0x04034b50, kDirectoryMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr std::size_t kLocalBytes = 30, kDirectoryBytes = 46, kEndBytes = 22;
constexpr std::uint16_t kEncrypted = 1U << 0, kUtf8 = 1U << 11;              // flags
constexpr std::uint16_t kStored = 0, kDeflated = 8;                          // methods
constexpr std::uint32_t kZip64 = std::numeric_limits<std::uint32_t>::max();  // "see the 64-bit field"
constexpr std::uint16_t kZip64Count = std::numeric_limits<std::uint16_t>::max();
constexpr std::string_view kSuffix = ".npy";

struct Member {
  std::string name;
  std::uint16_t flags = 0, method = 0;
  std::uint32_t crc = 0, packed = 0, size = 0, local = 0;  // local: offset of the local header
};

[[noreturn]] void fail(const std::string& message) { throw CompilationError(kStage, message); }

// LIMIT: no zip64: archives end at 4 GiB and 65535 arrays, in both directions.
[[noreturn]] void refuse_zip64() {
  throw NotSupportedError(kStage, "archives beyond 4 GiB (zip64) are not supported; use a .safetensors file");
}

// The end record carries a comment of up to 2^16 - 1 bytes, so it is searched from the back.
std::size_t find_end(std::string_view zip) {
  for (std::size_t comment = 0; comment <= 0xffff && comment + kEndBytes <= zip.size(); ++comment) {
    const std::size_t at = zip.size() - kEndBytes - comment;
    if (number_at<std::uint32_t>(zip, at) == kEndMark && number_at<std::uint16_t>(zip, at + 20) == comment)
      return at;
  }
  fail("there is no end record: the file is truncated or no zip archive");
}

Member read_member(std::string_view directory, std::size_t& at) {
  if (directory.size() - at < kDirectoryBytes || number_at<std::uint32_t>(directory, at) != kDirectoryMark)
    fail(fmt::format("directory, byte {}: expected an entry", at));
  auto u16 = [&](std::size_t field) { return number_at<std::uint16_t>(directory, at + field); };
  auto u32 = [&](std::size_t field) { return number_at<std::uint32_t>(directory, at + field); };
  const std::size_t name_size = u16(28), rest = std::size_t{u16(30)} + u16(32);  // extra fields, comment
  if (directory.size() - at - kDirectoryBytes < name_size + rest)
    fail(fmt::format("directory, byte {}: the entry is longer than the directory", at));
  Member m{std::string(directory.substr(at + kDirectoryBytes, name_size)),
           u16(8),
           u16(10),
           u32(16),
           u32(20),
           u32(24),
           u32(42)};
  at += kDirectoryBytes + name_size + rest;
  if (!is_utf8(m.name) || m.name.find('\0') != std::string::npos)
    fail("the archive holds a name that is not valid UTF-8");
  return m;
}

std::vector<Member> read_directory(std::string_view zip, std::size_t end) {
  const auto count = number_at<std::uint16_t>(zip, end + 10);
  const auto size = number_at<std::uint32_t>(zip, end + 12), begin = number_at<std::uint32_t>(zip, end + 16);
  if (count == kZip64Count || size == kZip64 || begin == kZip64) refuse_zip64();
  if (number_at<std::uint32_t>(zip, end + 4) != 0 || number_at<std::uint16_t>(zip, end + 8) != count)
    fail("the archive is one part of several; join them first");
  if (std::uint64_t{begin} + size > end)
    fail(fmt::format("the directory shall lie at bytes {} to {}, but ends before byte {}", begin,
                     std::uint64_t{begin} + size, end));
  const std::string_view directory = zip.substr(begin, size);
  std::vector<Member> members;
  std::size_t at = 0;
  while (members.size() < count) members.push_back(read_member(directory, at));
  if (at != directory.size()) fail(fmt::format("the directory is longer than its {} entries", count));
  return members;
}

// Where the data of a member begins. Sizes stand in the directory; the local header may leave them open.
std::size_t data_begin(std::string_view zip, const Member& m) {
  if (m.packed == kZip64 || m.size == kZip64 || m.local == kZip64) refuse_zip64();
  if (std::uint64_t{m.local} + kLocalBytes > zip.size() ||
      number_at<std::uint32_t>(zip, m.local) != kLocalMark)
    fail(m.name, fmt::format("there is no local header at byte {}", m.local));
  const std::size_t name_size = number_at<std::uint16_t>(zip, m.local + 26);
  const std::size_t begin = m.local + kLocalBytes + name_size + number_at<std::uint16_t>(zip, m.local + 28);
  if (begin + m.packed > zip.size())
    fail(m.name,
         fmt::format("the data shall end at byte {}, but the file has {}", begin + m.packed, zip.size()));
  if (zip.substr(m.local + kLocalBytes, name_size) != m.name)
    fail(m.name, "the local header has another name than the directory");
  return begin;
}

// Shared bytes would let a small file claim any amount of memory.
void require_apart(std::string_view zip, std::vector<Member> members) {
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.local < b.local; });
  std::size_t end = 0;
  for (const Member& m : members) {
    if (m.local < end) fail(m.name, fmt::format("begins at byte {}, inside another entry", m.local));
    end = data_begin(zip, m) + m.packed;
  }
}

std::string inflated(std::string_view packed, const Member& m) {
  constexpr std::size_t kMaxRatio = 1032;  // the most that deflate reaches: checked before memory is taken
  if (m.size / kMaxRatio > packed.size()) fail(m.name, "the size is more than the compressed data can hold");
  std::string out(m.size, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib only reads it
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    fail(m.name, "zlib could not start");  // negative: no zlib header
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (status != Z_STREAM_END || stream.avail_out != 0) fail(m.name, "the compressed data is damaged");
  return out;
}

std::string member_bytes(std::string_view zip, const Member& m) {
  // LIMIT: members are stored or deflated, as NumPy writes them.
  if ((m.flags & kEncrypted) != 0)
    throw NotSupportedError(kStage, m.name + ": encrypted archives are not supported");
  if (m.method != kStored && m.method != kDeflated)
    throw NotSupportedError(kStage,
                            fmt::format("{}: compression method {} is not supported; save the archive "
                                        "with numpy.savez",
                                        m.name, m.method));
  std::string_view data = zip.substr(data_begin(zip, m), m.packed);
  std::string unpacked;
  if (m.method == kDeflated)
    data = unpacked = inflated(data, m);
  else if (m.packed != m.size)
    fail(m.name, fmt::format("stored with {} bytes, expected {}", m.packed, m.size));
  if (const std::uint32_t crc = crc32(data); crc != m.crc)
    fail(m.name, fmt::format("the checksum is {:08x}, expected {:08x}: the file is damaged", crc, m.crc));
  return std::string(data);
}

// Every directory is read by this.
std::vector<Member> members_of(std::string_view zip) {
  std::vector<Member> members = read_directory(zip, find_end(zip));
  require_apart(zip, members);
  return members;
}

// `take` gets the name of each array, and its file.
template <class F>
void each_array(std::string_view zip, F take) {
  const std::vector<Member> members = members_of(zip);
  std::unordered_set<std::string_view> names;
  for (const Member& m : members) {
    if (!m.name.ends_with(kSuffix)) fail(m.name, "is no array: its name does not end with .npy");
    if (!names.insert(m.name).second) fail(m.name, "is in the archive twice");
    take(m, member_bytes(zip, m), m.name.substr(0, m.name.size() - kSuffix.size()));
  }
}

// The fields that local header and directory have in common, in this order.
void append_common(std::string& out, const Member& m) {
  constexpr std::uint16_t kVersionNeeded = 20, kTime = 0, kDate = (1 << 5) | 1;  // 1980-01-01: no clock
  append_bytes(out, kVersionNeeded);
  append_bytes(out, m.flags);
  append_bytes(out, m.method);
  append_bytes(out, kTime);
  append_bytes(out, kDate);
  append_bytes(out, m.crc);
  append_bytes(out, m.packed);
  append_bytes(out, m.size);
  append_bytes(out, static_cast<std::uint16_t>(m.name.size()));
  append_bytes(out, std::uint16_t{0});  // extra fields
}

void append_directory_entry(std::string& out, const Member& m) {
  constexpr std::uint16_t kVersionMade = 20;
  append_bytes(out, kDirectoryMark);
  append_bytes(out, kVersionMade);
  append_common(out, m);
  append_bytes(out, std::uint16_t{0});  // comment
  append_bytes(out, std::uint16_t{0});  // disk
  append_bytes(out, std::uint16_t{0});  // internal attributes
  append_bytes(out, std::uint32_t{0});  // external attributes
  append_bytes(out, m.local);
  out += m.name;
}

void append_end(std::string& out, std::size_t count, std::size_t begin, std::size_t size) {
  append_bytes(out, kEndMark);
  append_bytes(out, std::uint32_t{0});  // disks
  append_bytes(out, static_cast<std::uint16_t>(count));
  append_bytes(out, static_cast<std::uint16_t>(count));
  append_bytes(out, static_cast<std::uint32_t>(size));
  append_bytes(out, static_cast<std::uint32_t>(begin));
  append_bytes(out, std::uint16_t{0});  // comment
}

std::string member_name(const std::string& name) {
  if (name.size() + kSuffix.size() >= 0xffff || name.find('\0') != std::string::npos)
    throw ValueError(kStage, "a name is longer than 64 KiB or holds a zero byte; the archive cannot hold it");
  return name + std::string(kSuffix);
}

// Before anything is built: sizes and offsets of the archive have 32 bits, its count 16.
void require_small(const Named<Tensor>& tensors) {
  std::uint64_t total = kEndBytes;
  for (const auto& [name, tensor] : tensors)
    total += tensor.aval().bytes() + 2 * name.size() + kLocalBytes + kDirectoryBytes + 1024;
  if (total >= kZip64 || tensors.size() >= kZip64Count) refuse_zip64();
}

}  // namespace

namespace {

// A file of one array: its header, and the numbers behind it.
struct NpyFile {
  HeaderReader header;
  std::string_view data;
};

NpyFile npy_file(std::string_view bytes, const std::string& name) {
  constexpr std::size_t kVersionEnd = kMagic.size() + 2;
  if (bytes.size() < kVersionEnd || !bytes.starts_with(kMagic))
    fail(name, "is no array of NumPy: the magic is missing");
  const int version = static_cast<unsigned char>(bytes[kMagic.size()]);
  if (version < 1 || version > 3)
    throw NotSupportedError(
        kStage,
        fmt::format("{}: version {} of the format is not supported; known are 1 to 3", name, version));
  const std::size_t header_begin = kVersionEnd + (version == 1 ? 2U : 4U);
  if (bytes.size() < header_begin) fail(name, "truncated in front of the header");
  const std::size_t header_size = version == 1 ? number_at<std::uint16_t>(bytes, kVersionEnd)
                                               : number_at<std::uint32_t>(bytes, kVersionEnd);
  if (bytes.size() - header_begin < header_size)
    fail(name, fmt::format("the header shall have {} bytes, but {} follow", header_size,
                           bytes.size() - header_begin));
  NpyFile out{HeaderReader(bytes.substr(header_begin, header_size), name),
              bytes.substr(header_begin + header_size)};
  out.header.read();
  return out;
}

Shape shape_of(const HeaderReader& header, const std::string& name) {
  try {
    return Shape(header.shape());
  } catch (const ValueError& e) {
    fail(name, "shape: " + e.message());
  }
}

// '<U5': so many characters of 4 bytes; '|S5': so many bytes. Zeros fill up the end.
struct TextType {
  bool wide;
  std::size_t length;
};
std::optional<TextType> text_type(const std::string& descr) {
  if (!descr.starts_with("<U") && !descr.starts_with("|S")) return std::nullopt;
  TextType out{descr[1] == 'U', 0};
  const auto [stop, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), out.length);
  const bool whole = error == std::errc() && stop == descr.data() + descr.size();
  constexpr std::size_t kLongest = std::size_t{1} << 20U;
  return whole && out.length >= 1 && out.length <= kLongest ? std::optional(out) : std::nullopt;
}

void append_character(std::string& out, std::uint32_t c) {
  const auto part = [&](unsigned shift) { out += static_cast<char>(0x80U | (c >> shift & 0x3FU)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0U | c >> 6U);
    part(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0U | c >> 12U);
    part(6);
    part(0);
  } else {
    out += static_cast<char>(0xF0U | (c >> 18U & 7U));
    part(12);
    part(6);
    part(0);
  }
}

std::vector<std::string> read_texts(const NpyFile& file, const TextType& type, const std::string& name) {
  const auto count = static_cast<std::size_t>(shape_of(file.header, name).size());
  const std::size_t unit = type.wide ? 4 : 1, width = type.length * unit;
  if (file.header.fortran_order() && file.header.shape().size() > 1)
    throw NotSupportedError(kStage, name + ": texts in Fortran order; save numpy.ascontiguousarray of them");
  if (file.data.size() / width != count || file.data.size() % width != 0)
    fail(name, fmt::format("found {} bytes of data, expected {} texts of {} bytes", file.data.size(), count,
                           width));
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text;
    for (std::size_t k = 0; k < type.length; ++k) {
      const std::size_t at = i * width + k * unit;
      const std::uint32_t c =
          type.wide ? number_at<std::uint32_t>(file.data, at) : static_cast<unsigned char>(file.data[at]);
      if (c > 0x10FFFF) fail(name, fmt::format("text {} holds {:#x}, which is no character", i, c));
      if (type.wide)
        append_character(text, c);
      else
        text += file.data[at];
    }
    while (text.ends_with('\0')) text.pop_back();
    if (!is_utf8(text)) fail(name, fmt::format("text {} is '{}', which is no UTF-8", i, shown_text(text)));
    out.push_back(std::move(text));
  }
  return out;
}

Tensor read_numbers(const NpyFile& file, const std::string& name) {
  const HeaderReader& header = file.header;
  const Aval aval{read_dtype(header.descr(), name), shape_of(header, name)};
  std::string_view data = file.data;
  const Narrow* small = narrow(header.descr());
  const std::size_t expected =
      small == nullptr ? aval.bytes() : aval.bytes() / sizeof(std::int32_t) * small->width;
  if (data.size() != expected)
    fail(name, fmt::format("found {} bytes of data, expected {} for {}", data.size(), expected,
                           small == nullptr ? to_string(aval)
                                            : fmt::format("'{}'{}", small->text, to_string(aval.shape))));
  std::string wide;
  if (small != nullptr) data = wide = small->widened(data);
  Tensor out = header.fortran_order() ? from_fortran_order(aval, data) : Tensor::copy_of(aval, data.data());
  require_booleans(out, name, kStage);
  return out;
}

}  // namespace

Tensor read_npy(std::string_view bytes, const std::string& name) {
  return read_numbers(npy_file(bytes, name), name);
}

std::string write_npy(const Tensor& tensor, const std::string& name) {
  std::string header = header_text(tensor, name);
  const std::size_t before = kMagic.size() + 4, used = before + header.size() + 1;  // 1: the newline
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ') += '\n';
  std::string out(kMagic);
  out += {'\1', '\0'};  // version 1.0
  append_bytes(out, static_cast<std::uint16_t>(header.size()));
  out += header;
  out += bytes_of(tensor);
  return out;
}

std::string write_npz(const Named<Tensor>& tensors) {
  require_savable(tensors, kStage);
  require_small(tensors);
  std::string out, directory;
  for (const auto& [name, tensor] : tensors) {
    const std::string file = write_npy(tensor, name);
    const auto size = static_cast<std::uint32_t>(file.size());
    const Member m{
        member_name(name), kUtf8, kStored, crc32(file), size, size, static_cast<std::uint32_t>(out.size())};
    append_bytes(out, kLocalMark);
    append_common(out, m);
    out += m.name;
    out += file;
    append_directory_entry(directory, m);
  }
  const std::size_t begin = out.size();
  out += directory;
  append_end(out, tensors.size(), begin, directory.size());
  return out;
}

Named<Tensor> read_npz(std::string_view bytes, const std::string& source) {
  return naming_file(kStage, source, [&] {
    Named<Tensor> out;
    each_array(bytes, [&](const Member& m, const std::string& file, std::string name) {
      out.emplace_back(std::move(name), read_npy(file, m.name));
    });
    return out;
  });
}

NpzArrays read_npz_with_texts(std::string_view bytes, const std::string& source) {
  return naming_file(kStage, source, [&] {
    NpzArrays out;
    each_array(bytes, [&](const Member& m, const std::string& file, std::string name) {
      const NpyFile npy = npy_file(file, m.name);
      if (const auto type = text_type(npy.header.descr()))
        out.texts.emplace_back(std::move(name), read_texts(npy, *type, m.name));
      else
        out.tensors.emplace_back(std::move(name), read_numbers(npy, m.name));
    });
    return out;
  });
}

std::vector<std::pair<std::string, std::string>> read_zip_members(
    std::string_view zip, const std::string& source, const std::function<bool(const std::string&)>& wanted) {
  return naming_file(kStage, source, [&] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Member& m : members_of(zip))
      if (wanted(m.name)) out.emplace_back(m.name, member_bytes(zip, m));
    return out;
  });
}

}  // namespace etrace
