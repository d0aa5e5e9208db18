// Shared objects by the content they were made from, in a folder of the user's that processes, containers and
// machines may share.
//
// One file per object: the object itself, then a trailer with its length and a checksum over it and its key.
// It is made in a work folder (work_folder.h) and renamed, so that others see it whole or not at all, and it
// is checked before it is loaded. Whoever loads it compares the key that the object exports too (module.h).
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

  // Path of the object for this key. If there is none, or a damaged one, make(path) writes it, in a folder of
  // its own; IoError with the reason if it cannot be kept. `hit` says which it was.
  std::string object(const std::string& key, const std::function<void(const std::string& path)>& make,
                     bool* hit = nullptr) const;

  // The object turned out not to be what its name says: it goes, and the next call of object() makes it anew.
  void discard(const std::string& path, const std::string& why) const;

  const std::string& folder() const { return folder_; }
  // What was not used for longest goes, until all together take no more. object() keeps to 1 GB.
  void shrink(std::uintmax_t most_bytes) const;

 private:
  std::string folder_;
};

// What went wrong with cached objects, in this process so far.
struct CacheCounts {
  std::uint64_t discarded = 0;  // damaged, or of another program: removed and made anew
  std::uint64_t leftovers = 0;  // of processes that were killed: removed
  std::uint64_t not_kept = 0;   // compiled, but the folder could not take them
};
CacheCounts cache_counts();
void reset_cache_counts();  // for tests: what was said once is said again
// A program was compiled that the cache could not take; says why, once per process.
void count_not_kept(const std::string& why);

std::string content_hash(std::string_view);  // 32 hexadecimal digits

}  // namespace etrace::native
#pragma GCC visibility pop
