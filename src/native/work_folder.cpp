#include "native/work_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "etrace/error.h"

namespace etrace::native {

namespace {

constexpr std::string_view kPrefix = ".work-", kLock = "/lock";
constexpr std::int64_t kHour = 3600, kDay = 24 * kHour;
constexpr int kAttempts = 100;

enum class Lock : std::uint8_t { Ours, Others, Unknown };

Lock try_lock(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return Lock::Ours;
  return errno == EWOULDBLOCK ? Lock::Others : Lock::Unknown;
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (listing == nullptr) return out;
  while (const dirent* entry = ::readdir(listing.get()))
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      out.emplace_back(entry->d_name);
  return out;
}

// The lock goes last: who is killed in between leaves a folder that can still be told from a used one.
bool remove_folder(const std::string& path) {
  for (const std::string& name : entries_of(path))
    if ("/" + name != kLock) ::unlink((path + "/" + name).c_str());
  ::unlink((path + std::string(kLock)).c_str());
  return ::rmdir(path.c_str()) == 0;
}

// True if it is gone by our hand.
bool remove_unlocked(const std::string& path, const timespec& now) {
  const int file = ::open((path + std::string(kLock)).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return errno == ENOENT && ::rmdir(path.c_str()) == 0;  // not locked yet, or nearly removed
  struct stat about {};
  bool removed = false;
  const Lock lock = try_lock(file);
  if (::fstat(file, &about) == 0 && about.st_nlink > 0 &&  // else another one is at it
      (lock == Lock::Ours || (lock == Lock::Unknown && now.tv_sec - about.st_mtim.tv_sec >= kDay)))
    removed = remove_folder(path);
  ::close(file);
  return removed;
}

// Files of versions before there were work folders: .PID-N and .PID-N.c.
bool is_old_name(std::string_view name) {
  const auto number = [&] {
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(digits);
    return digits > 0;
  };
  const auto sign = [&](char c) {
    const bool is_it = name.starts_with(c);
    if (is_it) name.remove_prefix(1);
    return is_it;
  };
  return sign('.') && number() && sign('-') && number() && (name.empty() || name == ".c");
}

// As mkdtemp makes it below.
bool is_work_name(std::string_view name) {
  constexpr std::size_t kRandom = 6;
  return name.starts_with(kPrefix) && name.size() == kPrefix.size() + kRandom &&
         std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0; });
}

bool remove_leftover(const std::string& parent, const std::string& name, const timespec& now) {
  const std::string path = parent + "/" + name;
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0) return false;
  const std::int64_t age = now.tv_sec - about.st_mtim.tv_sec;
  if (S_ISDIR(about.st_mode)) return is_work_name(name) && age >= kHour && remove_unlocked(path, now);
  return S_ISREG(about.st_mode) && is_old_name(name) && age >= kDay && ::unlink(path.c_str()) == 0;
}

}  // namespace

// False if someone took the folder for a leftover before it was locked; the next name is another one.
bool WorkFolder::try_make(const std::string& parent) {
  path_ = parent + "/" + std::string(kPrefix) + "XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr)
    throw IoError("native", fmt::format("cannot make a folder in {}: {}", parent, std::strerror(errno)));
  lock_ = ::open((path_ + std::string(kLock)).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (lock_ < 0) {
    const int reason = errno;
    ::rmdir(path_.c_str());
    if (reason == ENOENT) return false;
    throw IoError("native", fmt::format("cannot write to {}: {}", path_, std::strerror(reason)));
  }
  struct stat about {};
  if (try_lock(lock_) != Lock::Others && ::fstat(lock_, &about) == 0 && about.st_nlink > 0) {
    made_ = about.st_mtim;
    return true;
  }
  ::close(lock_);
  return false;
}

WorkFolder::WorkFolder(const std::string& parent) {
  for (int i = 0; i < kAttempts; ++i)
    if (try_make(parent)) return;
  throw IoError("native", "folders that are made in " + parent + " are removed at once");
}

WorkFolder::~WorkFolder() {
  remove_folder(path_);
  ::close(lock_);
}

std::uint64_t remove_leftovers(const std::string& parent, const timespec& now) {
  std::uint64_t removed = 0;
  for (const std::string& name : entries_of(parent)) removed += remove_leftover(parent, name, now) ? 1 : 0;
  return removed;
}

}  // namespace etrace::native
