// A program with a session of its own, for who has values to give it and wants to see what comes out:
// reference gradients, checks, profiles, tests. Every argument has a buffer, by role and name, that starts at
// zero; what the program replaces in place is carried on from run to run.
#pragma once

#include "session/session.h"

#pragma GCC visibility push(default)
namespace etrace {

class ProgramRun {
 public:
  ProgramRun(const Backend&, const Program&);
  // `memory` as that of the backend that made the code.
  ProgramRun(Program, std::shared_ptr<const Runnable>, const DeviceMemory* memory = nullptr);

  // ValueError if there is no such argument, or if it has another type.
  void set(PortRole, std::string_view name, const Tensor& value);
  bool takes(PortRole, std::string_view name) const;
  // False: what would have been carried on is not finite, and has not changed.
  bool operator()() { return launch_.run(); }
  // A value that later runs do not change. ValueError if there is no such result.
  Tensor result(PortRole, std::string_view name);

  const Program& program() const { return launch_.program(); }
  const Runnable& code() const { return launch_.code(); }

 private:
  std::unique_ptr<Session> session_;
  Launch launch_;
};

}  // namespace etrace
#pragma GCC visibility pop
