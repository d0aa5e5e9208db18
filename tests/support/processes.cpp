#include "support/processes.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

namespace etrace::testing {

namespace {

constexpr int kNotPermitted = 77;

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  return ends;
}

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

bool enter(int namespaces) {
  if (namespaces == 0) return true;
  if (::unshare(namespaces) != 0 && ::unshare(namespaces | CLONE_NEWUSER) != 0) return false;
  // Mounts stay our own.
  return (namespaces & CLONE_NEWNS) == 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// In the new process: waits for the start, and ends with the number of what went wrong.
[[noreturn]] void work(int index, int namespaces, int start, const std::function<int(int)>& f) {
  if (!enter(namespaces)) ::_exit(kNotPermitted);
  char go = 0;
  while (::read(start, &go, 1) < 0 && errno == EINTR) {
  }
  int wrong = 1;
  try {
    wrong = f(index);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(wrong == 0 ? 0 : 1);
}

pid_t start_process(int index, int namespaces, int start, int errors, const std::function<int(int)>& f) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::dup2(errors, STDERR_FILENO);
  if ((namespaces & CLONE_NEWPID) == 0) work(index, namespaces, start, f);
  // New numbers begin with the next process.
  if (!enter(namespaces)) ::_exit(kNotPermitted);
  const pid_t first = ::fork();
  if (first == 0) work(index, 0, start, f);
  ::_exit(first < 0 ? kNotPermitted : status_of(first));
}

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 4096> some{};
  for (std::size_t n = 0; (n = std::fread(some.data(), 1, some.size(), file)) > 0;)
    text.append(some.data(), n);
  std::fclose(file);
  return text;
}

}  // namespace

std::vector<ProcessResult> in_processes(int count, int namespaces, const std::function<int(int)>& f) {
  const std::array<int, 2> start = make_pipe();
  std::vector<pid_t> children;
  std::vector<std::FILE*> errors;
  std::fflush(nullptr);
  for (int i = 0; i < count; ++i) {
    errors.push_back(std::tmpfile());
    children.push_back(start_process(i, namespaces, start[0], ::fileno(errors.back()), f));
  }
  const std::string go(static_cast<std::size_t>(count), 'g');
  const bool started = ::write(start[1], go.data(), go.size()) == static_cast<ssize_t>(go.size());
  std::vector<ProcessResult> out;
  for (std::size_t i = 0; i < children.size(); ++i) {
    const int status = children[i] < 0 || !started ? 1 : status_of(children[i]);
    out.push_back({status == 0               ? ProcessResult::Passed
                   : status == kNotPermitted ? ProcessResult::NotPermitted
                                             : ProcessResult::Failed,
                   contents(errors[i])});
  }
  ::close(start[0]);
  ::close(start[1]);
  return out;
}

}  // namespace etrace::testing
