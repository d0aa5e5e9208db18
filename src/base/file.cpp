// File access by system calls: the error number and fsync() are needed, and streams hide both.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "etrace/error.h"

namespace etrace {

namespace {

[[noreturn]] void fail(const std::string& doing, const std::string& path, int error) {
  throw IoError("io", "cannot " + doing + " '" + path + "': " + std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Writes, flushes to the device and closes; 0 or the error number.
int write_all(Descriptor& fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  // Pipes and terminals cannot be flushed; they say so and nothing is lost.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) return errno;
  return fd.close() == 0 ? 0 : errno;
}

}  // namespace

std::string read_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail("open", path, errno);
  std::string text;
  std::size_t used = 0;
  struct stat info {};
  if (::fstat(fd.get(), &info) == 0 && info.st_size > 0)
    text.resize(std::min(max_bytes, static_cast<std::size_t>(info.st_size)));
  for (;;) {
    if (used == text.size()) text.resize(std::max<std::size_t>(4096, used + used / 2));
    const ssize_t n = ::read(fd.get(), text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path, errno);
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > max_bytes) fail("read", path, EFBIG);
  }
  text.resize(used);
  return text;
}

void write_file(const std::string& path, std::string_view text) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    // A device or a pipe must not be replaced by a file.
    Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (fd.get() < 0) fail("open", path, errno);
    if (const int error = write_all(fd, text)) fail("write", path, error);
    return;
  }
  // A link stays a link: what it points to is replaced.
  std::error_code ignored;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, ignored);
  const std::string target = canonical.empty() ? path : canonical.string();
  // Written beside it under a short name of its own (a killed process may have left one behind), then
  // renamed.
  const std::filesystem::path folder = std::filesystem::path(target).parent_path();
  static std::atomic<unsigned> counter{0};
  std::string temporary;
  const auto create = [&] {
    temporary = folder / (".etrace-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp");
    return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  };
  int opened = create();
  while (opened < 0 && errno == EEXIST) opened = create();
  Descriptor fd(opened);
  if (fd.get() < 0) fail("create", path, errno);
  int error = write_all(fd, text);
  if (error == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail("write", path, error);
  }
  // The new name reaches the disk with its folder; where folders cannot be flushed the system does it in its
  // own time.
  const Descriptor directory(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

}  // namespace etrace
