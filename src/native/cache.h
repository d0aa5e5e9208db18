// Shared objects by the content they were made from, in a folder of the user's.
//
// One file per object: the object itself, then the whole key, then a trailer with both lengths and a
// checksum. It is written under a name of its own and renamed, so that other processes see it whole or not at
// all, and it is checked before it is loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace etrace::native {

class Cache {
 public:
  // ETRACE_CACHE_DIR, else XDG_CACHE_HOME/etrace, else HOME/.cache/etrace. Made if need be, mode 0700.
  // IoError if it cannot be, or if others may write to it.
  Cache();
  explicit Cache(std::string folder);

  // Path of the object for this key. If there is none, make(path) writes it; IoError with the reason if it
  // cannot be kept. `hit` says which it was.
  std::string object(const std::string& key, const std::function<void(const std::string& path)>& make,
                     bool* hit = nullptr) const;

  const std::string& folder() const { return folder_; }
  // What was not used for longest goes, until all together take no more. object() keeps to 1 GB.
  void shrink(std::uintmax_t most_bytes) const;

 private:
  std::string folder_;
};

std::string content_hash(std::string_view);  // 32 hexadecimal digits

}  // namespace etrace::native
#pragma GCC visibility pop
