// Ctrl-C as a request: a long run asks between two units of work whether it should stop.
#pragma once

namespace etrace::cli {

// While it lives, the first SIGINT or SIGTERM is only remembered; a second one ends the program at once. One
// at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const { return signal() != 0; }
  int signal() const;                               // 0: none came
  int exit_code() const { return 128 + signal(); }  // as a shell reports it: 130 after Ctrl-C
};

}  // namespace etrace::cli
