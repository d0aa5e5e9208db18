// A folder for one piece of work, inside a folder that other processes share.
//
// Its name is random and was free: mkdir is exclusive, on every file system and for processes that do not see
// each other's numbers (containers). As long as its owner lives, a file in it is locked; what a killed
// process left behind is a folder whose lock is free.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#pragma GCC visibility push(default)
namespace etrace::native {

class WorkFolder {
 public:
  // IoError with the reason if there can be none inside `parent`.
  explicit WorkFolder(const std::string& parent);
  ~WorkFolder();  // with what is in it
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }
  // By the clock of the file system, which need not be that of this machine.
  const timespec& made() const { return made_; }

 private:
  bool try_make(const std::string& parent);

  std::string path_;
  int lock_ = -1;
  timespec made_{};
};

// Removes the work folders in `parent` whose owner is gone: those that nobody has locked and that did not
// change for an hour before `now` (a day, where the file system has no locks), and files of a day and more
// that versions without work folders left there. How many there were.
std::uint64_t remove_leftovers(const std::string& parent, const timespec& now);

}  // namespace etrace::native
#pragma GCC visibility pop
