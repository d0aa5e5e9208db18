// The program `etrace` as a child process: what it prints, how it ends, and signals on the way.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace etrace::testing {

// What differs from how the tests themselves run.
struct Surroundings {
  std::string output_to = {};                 // a file for standard output; empty: it comes with the errors
  std::vector<std::string> environment = {};  // "NAME=value", in place of those of that name
};

class Process {
 public:
  // Standard output and errors come together.
  explicit Process(const std::vector<std::string>& arguments, const Surroundings& around = {}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (around.output_to.empty())
      posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    else
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, around.output_to.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::vector<char*> argv{const_cast<char*>(ETRACE_CLI)};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    std::vector<char*> environment;
    for (const std::string& e : around.environment) environment.push_back(const_cast<char*>(e.c_str()));
    // Tests of run folders say where they lie; others leave none behind.
    static const std::string no_runs = "ETRACE_RUNS=none";
    if (!is_replaced(no_runs, around.environment)) environment.push_back(const_cast<char*>(no_runs.c_str()));
    for (char** e = environ; *e != nullptr; ++e)
      if (!is_replaced(*e, around.environment)) environment.push_back(*e);
    environment.push_back(nullptr);
    const int error = posix_spawn(&pid_, ETRACE_CLI, &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    out_ = fdopen(ends[0], "r");
    if (error != 0 || out_ == nullptr) throw std::runtime_error("cannot start " ETRACE_CLI);
  }
  ~Process() {
    if (pid_ > 0) {
      kill(SIGKILL);
      wait();
    }
    fclose(out_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line without its end; false at the end of the output.
  bool read_line(std::string& line) {
    line.clear();
    for (int c = fgetc(out_); c != EOF; c = fgetc(out_)) {
      if (c == '\n') return true;
      line += static_cast<char>(c);
    }
    return !line.empty();
  }
  void kill(int signal) const { ::kill(pid_, signal); }

  struct Result {
    int code = 0;  // 128 + signal if one ended it, as in a shell
    std::string text;
  };
  Result wait() {  // reads what is left
    Result result;
    for (std::string line; read_line(line);) result.text += line + "\n";
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
  }

 private:
  static bool is_replaced(const std::string& entry, const std::vector<std::string>& others) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    for (const std::string& o : others)
      if (o.starts_with(name)) return true;
    return false;
  }

  pid_t pid_ = -1;
  FILE* out_ = nullptr;
};

inline Process::Result run_etrace(const std::vector<std::string>& arguments,
                                  const Surroundings& around = {}) {
  return Process(arguments, around).wait();
}

}  // namespace etrace::testing
