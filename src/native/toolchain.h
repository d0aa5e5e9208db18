// The system's C compiler, as a process of its own, without a shell.
#pragma once

#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::native {

struct Compiler {
  std::vector<std::string> command;  // {"cc"}; CC is the path of a file, or words with options
};
// CC, else cc, gcc, clang. Empty, with the reason, if none answers.
std::optional<Compiler> find_compiler(std::string& reason);
// Which compilers there are, part of the key of everything they make: the words of each command, and path,
// size and time of change of its file. No process is started, so that code in the cache is there at once.
// LIMIT: what a wrapper such as ccache calls is not seen.
std::string compiler_identity();

// Options for emitted code: for this machine's CPU, never with relaxed arithmetic.
const std::vector<std::string>& emitted_code_options();
// The machine's CPU with its features: code for one may not run on another.
const std::string& cpu_identity();

// Empty if the shared object was made, else what went wrong.
std::string compile_shared(const Compiler&, const std::string& source, const std::string& object);

// Runs a program and waits. Its output, both streams together, and the exit status (-1: it did not start or
// was killed).
struct Finished {
  int status = -1;
  std::string output;
};
Finished run_process(const std::vector<std::string>& command);

}  // namespace etrace::native
#pragma GCC visibility pop
