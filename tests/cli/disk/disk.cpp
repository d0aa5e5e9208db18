// Loaded before the C library of a child process (LD_PRELOAD): counts every call that changes a disk, and at
// a given one kills the process, or finds the disk full from there on. So a process ends at any point of its
// files, the same one every time.
//   ETRACE_DISK_COUNT=FILE   the number of calls, at the end of the process
//   ETRACE_DISK_KILL=N       SIGKILL within the N-th call: a write has written half of its bytes, others
//                            nothing
//   ETRACE_DISK_FULL=N       from the N-th call on writes fail with ENOSPC
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<long> calls{0};

long number(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : strtol(text, nullptr, 10);
}

bool is_file(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

enum class Fate { Live, Die, Full };
Fate next_call() {
  static const long kill_at = number("ETRACE_DISK_KILL"), full_at = number("ETRACE_DISK_FULL");
  const long n = ++calls;
  if (n == kill_at) return Fate::Die;
  return full_at != 0 && n >= full_at ? Fate::Full : Fate::Live;
}
void die() { kill(getpid(), SIGKILL); }

template <class F>
F original(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

struct Report {
  ~Report() {
    const char* path = getenv("ETRACE_DISK_COUNT");
    if (path == nullptr) return;
    FILE* out = fopen(path, "w");
    if (out == nullptr) return;
    fprintf(out, "%ld\n", calls.load());
    fclose(out);
  }
} report;

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t count) {
  static const auto real = original<ssize_t (*)(int, const void*, size_t)>("write");
  if (!is_file(fd)) return real(fd, data, count);
  const Fate fate = next_call();
  if (fate == Fate::Die) {
    (void)!real(fd, data, count / 2);
    die();
  }
  if (fate == Fate::Full) {
    errno = ENOSPC;
    return -1;
  }
  return real(fd, data, count);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  static const auto real = original<ssize_t (*)(int, const struct iovec*, int)>("writev");
  if (!is_file(fd)) return real(fd, parts, count);
  const Fate fate = next_call();
  if (fate == Fate::Die) die();
  if (fate == Fate::Full) {
    errno = ENOSPC;
    return -1;
  }
  return real(fd, parts, count);
}

int fsync(int fd) {
  static const auto real = original<int (*)(int)>("fsync");
  if (next_call() == Fate::Die) die();
  return real(fd);
}

int rename(const char* from, const char* to) {
  static const auto real = original<int (*)(const char*, const char*)>("rename");
  if (next_call() == Fate::Die) die();
  return real(from, to);
}

int truncate(const char* path, off_t size) {
  static const auto real = original<int (*)(const char*, off_t)>("truncate");
  if (next_call() == Fate::Die) die();
  return real(path, size);
}

int mkdir(const char* path, mode_t mode) {
  static const auto real = original<int (*)(const char*, mode_t)>("mkdir");
  if (next_call() == Fate::Die) die();
  return real(path, mode);
}

}  // extern "C"
