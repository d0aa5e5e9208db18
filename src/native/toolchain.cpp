#include "native/toolchain.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "base/spawn.h"
#include "etrace/host.h"

extern char** environ;

namespace etrace::native {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// A process that was started: what it writes and how it ends. It goes with the object.
class Child {
 public:
  Child(pid_t pid, int output) : pid_(pid), output_(output) {
    ::fcntl(output, F_SETFL, ::fcntl(output, F_GETFL) | O_NONBLOCK);
  }
  ~Child() {
    if (ended_) return;
    ::kill(-pid_, SIGTERM);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // It is over when it has ended, not when its output has: a process that was forked meanwhile may hold that.
  Finished finished() {
    while (!ended_) {
      pollfd more{output_, POLLIN, 0};
      ::poll(&more, 1, kLook);
      const bool nothing_comes = drain();
      const pid_t found = ::waitpid(pid_, &status_, nothing_comes ? 0 : WNOHANG);
      if (found < 0 && errno != EINTR) {
        ended_ = true;
        return {-1, std::string("waitpid: ") + std::strerror(errno)};
      }
      ended_ = found == pid_;
      if (!ended_) check_interrupt();
    }
    drain();
    Finished done{-1, std::move(text_)};
    if (WIFEXITED(status_)) done.status = WEXITSTATUS(status_);
    if (WIFSIGNALED(status_)) done.output += fmt::format("killed by signal {}", WTERMSIG(status_));
    return done;
  }

 private:
  static constexpr int kLook = 20;  // ms
  bool drain() {                    // true: this was the last of it
    std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t n = ::read(output_, buffer.data(), buffer.size());
      if (n > 0)
        text_.append(buffer.data(), static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        return n == 0;
    }
  }
  pid_t pid_;
  int output_, status_ = 0;
  bool ended_ = false;
  std::string text_;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Finished run_process(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {-1, std::string("pipe: ") + std::strerror(errno)};
  Descriptor reader(ends[0]), writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDERR_FILENO);
  close_inherited_files(actions);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // In a group of its own: Ctrl-C is for us, and whether the compiler goes on is ours to say.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  writer.reset();
  if (failed != 0) return {-1, std::strerror(failed)};
  return Child(child, reader.get()).finished();
}

namespace {

std::vector<std::vector<std::string>> candidates() {
  const char* cc = std::getenv("CC");
  if (cc == nullptr || *cc == '\0') return {{"cc"}, {"gcc"}, {"clang"}};
  if (std::string_view(cc).find('/') != std::string_view::npos && ::access(cc, X_OK) == 0) return {{cc}};
  std::istringstream words(cc);
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  if (command.empty()) return {};
  return {command};
}

// The file that a command names, as the system would look for it; empty: there is none.
std::string file_of(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + command;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace

std::string compiler_identity() {
  std::string out;
  for (const std::vector<std::string>& command : candidates()) {
    const std::string file = file_of(command[0]);
    struct stat about {};
    if (file.empty() || ::stat(file.c_str(), &about) != 0) continue;
    for (const std::string& word : command) out += word + " ";
    out += fmt::format("{} {} {}.{}\n", file, about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
  }
  return out;
}

std::optional<Compiler> find_compiler(std::string& reason) {
  reason.clear();
  for (const std::vector<std::string>& command : candidates()) {
    std::vector<std::string> ask = command;
    ask.emplace_back("--version");
    const Finished answer = run_process(ask);
    if (answer.status == 0) return Compiler{command};
    reason += (reason.empty() ? "" : "; ") + command[0] + ": " +
              (answer.output.empty() ? "does not run" : first_line(answer.output));
  }
  return std::nullopt;
}

const std::string& cpu_identity() {
  static const std::string text = [] {
    std::ifstream file("/proc/cpuinfo");
    std::set<std::string> lines;
    for (std::string line; std::getline(file, line);)
      for (const char* start :
           {"vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU part"})
        if (line.starts_with(start)) lines.insert(line);
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }();
  return text;
}

const std::vector<std::string>& emitted_code_options() {
  // Exceptions of kernels that it calls pass through. Values of different types share places in the arena.
  static const std::vector<std::string> options = [] {
    std::vector<std::string> o{"-std=gnu99",
                               "-O2",
                               "-march=native",
                               "-ffp-contract=off",
                               "-fno-math-errno",
                               "-fopenmp-simd",
                               "-fno-trapping-math",
                               "-fno-strict-aliasing",
                               "-fexceptions",
                               "-fPIC",
                               "-shared",
                               "-fvisibility=hidden",
                               "-w"};
    if (cpu_identity().find(" avx512f") != std::string::npos) o.emplace_back("-mprefer-vector-width=512");
    return o;
  }();
  return options;
}

namespace {

// Which is no option and no file of options, whatever the folder is called.
std::string as_file(const std::string& path) {
  return path.starts_with('-') || path.starts_with('@') ? "./" + path : path;
}

}  // namespace

std::string compile_shared(const Compiler& compiler, const std::string& source, const std::string& object) {
  std::vector<std::string> command = compiler.command;
  const auto& options = emitted_code_options();
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"-o", as_file(object), "-x", "c", as_file(source), "-lm"});
  const Finished done = run_process(command);
  if (done.status == 0) return {};
  return fmt::format("{} ended with status {}: {}", compiler.command[0], done.status,
                     done.output.substr(0, 2000));
}

}  // namespace etrace::native
