#include "base/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "etrace/error.h"

namespace etrace {

namespace {

// Before what `work` writes, and behind it.
enum Mark : std::int64_t { kDone = 0x646f6e65, kValueError, kIoError, kNoMemory };

// Pages that this process may use by now; limits count from there.
std::uint64_t address_space() {
  unsigned long long pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%llu", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void limit(int resource, std::uint64_t most) {
  const rlimit r{most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &r);
}

struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) ::close(end);
  }
  void close(int which) {
    ::close(ends[which]);
    ends[which] = -1;
  }
};

[[noreturn]] void be_child(int parent, int file, std::uint64_t space, const ChildLimits& limits,
                           const std::function<void(ChildWriter&)>& work) {
  for (const int s : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGALRM, SIGTERM, SIGPIPE})
    std::signal(s, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // the parent's: it decides
  if (!end_with_parent(parent)) _exit(0);
  limit(RLIMIT_CORE, 0);
  const rlimit time{limits.seconds, limits.seconds + 1};  // first SIGXCPU, which says why, then SIGKILL
  setrlimit(RLIMIT_CPU, &time);
  alarm(static_cast<unsigned>(2 * limits.seconds));  // also for one that waits for ever
  if (space > 0) limit(RLIMIT_AS, space + limits.bytes);
  // What an allocator says of a heap that it finds damaged is nobody's business.
  if (const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nothing >= 0)
    ::dup2(nothing, STDERR_FILENO);
  ChildWriter out(file);
  const auto end = [&](Mark mark, const std::string& text) {
    out.put_number(mark);
    out.put_text(text);
    out.flush();
    _exit(0);
  };
  try {
    work(out);
    end(kDone, "");
  } catch (const IoError& e) {
    end(kIoError, e.message());
  } catch (const Error& e) {
    end(kValueError, e.message());
  } catch (const std::bad_alloc&) {
    end(kNoMemory, "");
  } catch (...) {
    _exit(1);
  }
  _exit(1);
}

}  // namespace

bool end_with_parent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;  // it may have ended in between
}

void ChildWriter::put(const void* data, std::size_t bytes) {
  waiting_.append(static_cast<const char*>(data), bytes);
  constexpr std::size_t kEnough = std::size_t{1} << 16U;
  if (waiting_.size() >= kEnough) flush();
}
void ChildWriter::put_text(const std::string& text) {
  put_number(static_cast<std::int64_t>(text.size()));
  put(text.data(), text.size());
}
void ChildWriter::flush() {
  std::string_view left = waiting_;
  while (!left.empty()) {
    const ssize_t n = ::write(file_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) _exit(0);  // the parent has given up
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  waiting_.clear();
}

bool ChildReader::next() {
  last_ = number();
  return last_ == ChildWriter::kRecord;
}
void ChildReader::get(void* data, std::size_t bytes) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::read(file_, to, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Ended();
    to += n;
    bytes -= static_cast<std::size_t>(n);
  }
}
std::int64_t ChildReader::number() {
  std::int64_t value = 0;
  get(&value, sizeof value);
  return value;
}
std::size_t ChildReader::size(std::size_t of_each) {
  const std::int64_t count = number();
  if (count < 0 || static_cast<std::uint64_t>(count) > most_ / of_each) throw Ended();
  return static_cast<std::size_t>(count);
}
std::string ChildReader::text() {
  std::string out(size(1), '\0');
  get(out.data(), out.size());
  return out;
}

void in_child(const std::string& what, const ChildLimits& limits,
              const std::function<void(ChildWriter&)>& work, const std::function<void(ChildReader&)>& take) {
  Pipe pipe;
  if (::pipe2(pipe.ends, O_CLOEXEC) != 0)
    throw IoError("data",
                  fmt::format("{}: no pipe for a process of its own: {}", what, std::strerror(errno)));
  const std::uint64_t space = address_space();
  const int parent = getpid();
  const pid_t child = fork();
  if (child < 0)
    throw IoError("data", fmt::format("{}: no process of its own: {}", what, std::strerror(errno)));
  if (child == 0) {
    pipe.close(0);
    be_child(parent, pipe.ends[1], space, limits, work);
  }
  pipe.close(1);
  // However this ends, so does the child.
  struct Reaped {
    pid_t child;
    int status = 0;
    void now(bool by_force) {  // NOLINT(readability-make-member-function-const)
      if (child < 0) return;
      if (by_force) ::kill(child, SIGKILL);
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      child = -1;
    }
    ~Reaped() { now(true); }
  } reaped{child};
  ChildReader in(pipe.ends[0], limits.bytes);
  std::int64_t mark = 0;
  std::string text;
  try {
    take(in);
    while (in.last() == ChildWriter::kRecord) in.next();
    text = in.text();
    mark = in.last();
  } catch (const ChildReader::Ended&) {
    mark = 0;
  }
  pipe.close(0);  // a child that writes on ends by that
  reaped.now(false);
  switch (mark) {
    case kDone:
      return;
    case kValueError:
      throw ValueError("data", text);
    case kIoError:
      throw IoError("data", text);
    case kNoMemory:
      throw ValueError("data", fmt::format("{}: it needs more than {} MiB of memory, which no sound one does",
                                           what, limits.bytes >> 20U));
    default:
      break;
  }
  const bool killed = WIFSIGNALED(reaped.status);
  const bool too_long = killed && (WTERMSIG(reaped.status) == SIGXCPU || WTERMSIG(reaped.status) == SIGALRM);
  throw ValueError(
      "data", too_long ? fmt::format("{}: it takes more than {} s of processor time, which no sound one does",
                                     what, limits.seconds)
              : killed ? fmt::format("{}: it ends with signal {}", what, WTERMSIG(reaped.status))
                       : fmt::format("{}: it ends without an answer", what));
}

}  // namespace etrace
