#include "native/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "etrace/error.h"

namespace etrace::native {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30U;
constexpr std::string_view kMagic = "etrace01";

struct Trailer {
  char magic[8];
  std::uint64_t object_bytes, key_bytes;
  char checksum[32];  // of object and key
};

std::string default_folder() {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (const std::string own = variable("ETRACE_CACHE_DIR"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/etrace";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/etrace";
  throw IoError("native",
                "there is no folder for compiled code: set HOME, XDG_CACHE_HOME or ETRACE_CACHE_DIR");
}

std::string read_file(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) return {};
  std::string out(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(in.gcount()));  // another process may have cut it
  return out;
}

// Whether the file is whole and was made for this key.
bool is_object_of(const std::string& path, const std::string& key) {
  const std::string file = read_file(path);
  Trailer t{};
  if (file.size() < sizeof t) return false;
  std::memcpy(&t, file.data() + file.size() - sizeof t, sizeof t);
  const std::string_view content(file.data(), file.size() - sizeof t);
  if (std::string_view(t.magic, sizeof t.magic) != kMagic || t.object_bytes > content.size() ||
      t.key_bytes != content.size() - t.object_bytes)
    return false;
  return content.substr(t.object_bytes) == key &&
         content_hash(content) == std::string_view(t.checksum, sizeof t.checksum);
}

void append_key(const std::string& path, const std::string& key) {
  const std::string object = read_file(path);
  if (object.empty()) throw IoError("native", "the compiler wrote nothing to " + path);
  Trailer t{};
  std::memcpy(t.magic, kMagic.data(), sizeof t.magic);
  t.object_bytes = object.size();
  t.key_bytes = key.size();
  const std::string checksum = content_hash(object + key);
  std::memcpy(t.checksum, checksum.data(), sizeof t.checksum);
  std::ofstream out(path, std::ios::binary | std::ios::app);
  out << key;
  out.write(reinterpret_cast<const char*>(&t), sizeof t);
  out.flush();
  if (!out) throw IoError("native", fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace

std::string content_hash(std::string_view text) {
  // Two lanes with different multipliers, eight bytes at a time. It names and checks files; keys are compared
  // as a whole.
  std::uint64_t a = 0xcbf29ce484222325U ^ text.size(), b = 0x9e3779b97f4a7c15U;
  for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    a = (a ^ word) * 0x9fb21c651e98df25U;
    a ^= a >> 32U;
    b = (b ^ word) * 0xff51afd7ed558ccdU;
    b ^= b >> 29U;
  }
  return fmt::format("{:016x}{:016x}", a, b);
}

Cache::Cache() : Cache(default_folder()) {}

Cache::Cache(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (const fs::path parent = fs::path(folder_).parent_path(); !parent.empty())
    fs::create_directories(parent, error);
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
    throw IoError("native", fmt::format("cannot make the folder {} for compiled code: {}", folder_,
                                        std::strerror(errno)));
  struct stat about {};
  if (::stat(folder_.c_str(), &about) != 0 || !S_ISDIR(about.st_mode))
    throw IoError("native", folder_ + ", where compiled code is kept, is not a folder");
  if (about.st_uid != ::geteuid() || (about.st_mode & 0022U) != 0)
    throw IoError("native", fmt::format("others may write to the folder {} for compiled code; it must be "
                                        "yours alone (chmod 700)",
                                        folder_));
}

std::string Cache::object(const std::string& key, const std::function<void(const std::string&)>& make,
                          bool* hit) const {
  const std::string path = folder_ + "/" + content_hash(key) + ".so";
  const bool found = is_object_of(path, key);
  if (hit != nullptr) *hit = found;
  if (found) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now: among the last to go
    return path;
  }
  static std::atomic<unsigned> count{0};
  const std::string temporary = fmt::format("{}/.{}-{}", folder_, ::getpid(), count++);
  struct Remove {
    const std::string& path;
    ~Remove() { ::unlink(path.c_str()); }
  } remove{temporary};
  make(temporary);
  append_key(temporary, key);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    throw IoError("native", fmt::format("cannot rename {} to {}: {}", temporary, path, std::strerror(errno)));
  shrink(kMostBytes);
  return path;
}

void Cache::shrink(std::uintmax_t most_bytes) const {
  struct Entry {
    fs::file_time_type used;
    std::uintmax_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uintmax_t total = 0;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder_, error)) {
    if (file.path().extension() != ".so") continue;
    std::error_code gone;  // another process may have removed it
    const Entry e{file.last_write_time(gone), file.file_size(gone), file.path()};
    if (gone) continue;
    total += e.bytes;
    entries.push_back(e);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (total <= most_bytes) return;
    fs::remove(e.path, error);
    total -= e.bytes;
  }
}

}  // namespace etrace::native
