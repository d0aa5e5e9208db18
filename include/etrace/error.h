// Errors: whose fault it is, and where in the *model*. Every error names the stage, the place, what was
// found, what was expected and what to do. Subclasses add meaning, not formats.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

// Where an equation comes from: the module that was being called, and the line of the model, if known.
struct Origin {
  std::vector<std::string> module;  // {"rnn1", "W"}, printed rnn1.W
  std::string file;
  int line = 0;

  static Origin here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {{}, file, line};
  }
  bool empty() const { return module.empty() && file.empty(); }
};
std::string to_string(const Origin&);  // "rnn1.W (model.cpp:42)"; empty for an unknown place

// what(): "[stage] message (at origin)".
class Error : public std::runtime_error {
 public:
  Error(std::string stage, std::string message, Origin origin = {});
  const std::string& stage() const { return stage_; }
  const std::string& message() const { return message_; }
  const Origin& origin() const { return origin_; }

 private:
  std::string stage_, message_;
  Origin origin_;
};

struct CompilationError : Error {  // the program or the file is not what it must be
  using Error::Error;
};
struct NotSupportedError : Error {  // legal, but not by us; says what would work
  using Error::Error;
};
struct TypeError : Error {  // a value of the wrong kind (dtype, handle) was passed
  using Error::Error;
};
struct ValueError : Error {  // a value of the right kind but out of range (shape, axis, index)
  using Error::Error;
};
struct IoError : Error {  // a file could not be read or written
  using Error::Error;
};
struct InternalError : Error {  // our bug; no test may ever expect one
  using Error::Error;
};

[[noreturn]] void internal_error(const char* condition, const char* file, int line);

// An invariant of ours. Never depends on what a user passes in.
#define ETRACE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::etrace::internal_error(#condition, __FILE__, __LINE__))

}  // namespace etrace
#pragma GCC visibility pop
