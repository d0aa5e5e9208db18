#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "etrace/error.h"
#include "io/json.h"

namespace etrace::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = "/lock";

void require_folder_name(const std::string& name) {
  const bool fits = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                    name.find('\0') == std::string::npos;
  if (!fits)
    throw ValueError("train", fmt::format("'{}' cannot name a run; expected the name of a folder", name));
}

[[noreturn]] void cannot(const char* what, const std::string& path, const std::string& reason) {
  throw IoError("train", fmt::format("the run folder '{}' cannot be {}: {}; choose another with --runs, or "
                                     "--runs none for a run without a folder",
                                     path, what, reason));
}

}  // namespace

RunFolder RunFolder::create(const std::string& root, const std::string& name, bool numbered) {
  require_folder_name(name);
  std::error_code error;
  fs::create_directories(root, error);
  if (error) cannot("made", root, error.message());
  for (int number = 1;; ++number) {
    const std::string path =
        fmt::format("{}/{}{}", root, name, number == 1 ? "" : fmt::format("-{}", number));
    // Making it is what takes the name: two runs that start at once get two folders.
    if (fs::create_directory(path, error)) {
      RunFolder folder(path);
      folder.lock();
      fs::create_directory(folder.file("checkpoints"), error);
      if (error) cannot("made", path, error.message());
      return folder;
    }
    if (error) cannot("made", path, error.message());
    if (!numbered)
      throw ValueError("train", fmt::format("the run '{}' exists: add --resume to go on with it, or choose "
                                            "another --name",
                                            path));
  }
}

RunFolder RunFolder::open(const std::string& path, Also also) {
  if (!is_run(path) && !(also == Also::Begun && is_begun(path)))
    throw ValueError("train", fmt::format("'{}' is no folder of a run: it has no run.json", path));
  RunFolder folder(path);
  folder.lock();
  std::error_code error;
  fs::create_directory(folder.file("checkpoints"), error);
  if (error) cannot("written", path, error.message());
  return folder;
}

bool RunFolder::is_run(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path + "/run.json", error);
}

// What a process that was killed at once has left: a lock, and no run.json yet.
bool RunFolder::is_begun(const std::string& path) {
  std::error_code error;
  if (is_run(path) || !fs::is_directory(path, error)) return false;
  return fs::is_empty(path, error) || fs::is_regular_file(path + kLock, error);
}

bool RunFolder::is_in_use(const std::string& path) {
  const int file = ::open((path + kLock).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool used = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return used;
}

void RunFolder::require_no_stream(const std::string& path, const char* verb) {
  const std::optional<Json> json = json_of(read_file(path + "/run.json"));
  if (json && said_text(*json, "/task") == "stream")
    throw ValueError(verb, fmt::format("the run '{}' is of a stream, whose score is in its run.json: every "
                                       "line was answered before it was learned from",
                                       path));
}

void RunFolder::lock() {
  const int file = ::open(this->file("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) cannot("written", path_, std::strerror(errno));
  lock_ = std::shared_ptr<const int>(new int(file), [](const int* f) {
    ::close(*f);  // lets go of the lock, as the end of a process does
    delete f;
  });
  if (flock(file, LOCK_EX | LOCK_NB) != 0)
    throw ValueError("train",
                     fmt::format("another process works in the run folder '{}'; wait for it, or choose "
                                 "another --name",
                                 path_));
}

std::string RunFolder::name() const { return fs::path(path_).filename().string(); }

std::vector<FoundRun> find_runs(const std::string& root, std::vector<std::string>& problems) {
  std::vector<FoundRun> out;
  std::error_code error;
  std::vector<std::string> paths;
  for (const fs::directory_entry& e : fs::directory_iterator(root, error))
    if (RunFolder::is_run(e.path().string())) paths.push_back(e.path().string());
  if (error)
    throw IoError("runs", fmt::format("the folder '{}' cannot be read: {}; --runs names another", root,
                                      error.message()));
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    try {
      std::optional<Json> json = json_of(read_file(path + "/run.json"));
      if (!json || said_text(*json, "/format") != "etrace.run")
        throw ValueError("runs", "it is no JSON object of format etrace.run");
      out.push_back({path, std::make_shared<const Json>(std::move(*json))});
    } catch (const Error& e) {
      problems.push_back(fmt::format("{}/run.json: {}", path, e.message()));
    }
  }
  return out;
}

}  // namespace etrace::train
