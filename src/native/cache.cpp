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
#include "etrace/host.h"
#include "native/work_folder.h"

namespace etrace::native {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30U;
constexpr std::string_view kMagic = "etrace02";

struct Trailer {
  char magic[8];
  std::uint64_t object_bytes;
  char checksum[32];  // of object and key
};

struct Counters {
  std::atomic<std::uint64_t> discarded{0}, leftovers{0}, not_kept{0};
};
Counters& counters() {
  static Counters all;
  return all;
}

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

// The folders on the way are the user's alone too, whatever the umask: ~/.cache may be one of them.
void make_private(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error)) return;
  make_private(folder.parent_path());
  ::mkdir(folder.c_str(), 0700);
}

// An object of ours: the hash of its key, and nothing else.
bool is_object_name(const std::string& name) {
  constexpr std::size_t kHash = 32;
  return name.size() == kHash + 3 && name.ends_with(".so") &&
         name.find_first_not_of("0123456789abcdef") == kHash;
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

enum class Found : std::uint8_t { Nothing, Damaged, Object };

// Whether the file is whole and was made for this key.
Found look_at(const std::string& path, const std::string& key) {
  if (::access(path.c_str(), F_OK) != 0) return Found::Nothing;
  std::string file = read_file(path);
  Trailer t{};
  if (file.size() < sizeof t) return Found::Damaged;
  std::memcpy(&t, file.data() + file.size() - sizeof t, sizeof t);
  file.resize(file.size() - sizeof t);
  if (std::string_view(t.magic, sizeof t.magic) != kMagic || t.object_bytes != file.size())
    return Found::Damaged;
  return content_hash(file + key) == std::string_view(t.checksum, sizeof t.checksum) ? Found::Object
                                                                                     : Found::Damaged;
}

void append_trailer(const std::string& path, const std::string& key) {
  const std::string object = read_file(path);
  if (object.empty()) throw IoError("native", "the compiler wrote nothing to " + path);
  Trailer t{};
  std::memcpy(t.magic, kMagic.data(), sizeof t.magic);
  t.object_bytes = object.size();
  const std::string checksum = content_hash(object + key);
  std::memcpy(t.checksum, checksum.data(), sizeof t.checksum);
  std::ofstream out(path, std::ios::binary | std::ios::app);
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
  make_private(fs::path(folder_).parent_path());
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
  const Found found = look_at(path, key);
  if (hit != nullptr) *hit = found == Found::Object;
  if (found == Found::Object) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now: among the last to go
    return path;
  }
  if (found == Found::Damaged) discard(path, "it is damaged");
  const WorkFolder work(folder_);
  counters().leftovers += remove_leftovers(folder_, work.made());
  const std::string made = work.path() + "/object.so";
  make(made);
  append_trailer(made, key);
  if (::rename(made.c_str(), path.c_str()) != 0)
    throw IoError("native", fmt::format("cannot rename {} to {}: {}", made, path, std::strerror(errno)));
  shrink(kMostBytes);
  return path;
}

void Cache::discard(const std::string& path, const std::string& why) const {
  ::unlink(path.c_str());
  if (counters().discarded++ == 0)
    warn("the compiled code in " + path + " is not used but made anew: " + why);
}

CacheCounts cache_counts() {
  const Counters& c = counters();
  return {c.discarded, c.leftovers, c.not_kept};
}

void reset_cache_counts() {
  for (auto* count : {&counters().discarded, &counters().leftovers, &counters().not_kept}) *count = 0;
}

void count_not_kept(const std::string& why) {
  if (counters().not_kept++ == 0) warn("compiled code is not kept, every process compiles anew: " + why);
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
    std::error_code gone;  // another process may have removed it
    if (!is_object_name(file.path().filename().string()) || !file.is_regular_file(gone)) continue;
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
