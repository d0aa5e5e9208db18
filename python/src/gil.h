// The GIL, let go and taken, in a process whose Python may end while other threads are at work. Those never
// get the GIL again: Python before 3.14 ends such threads on the spot, which no frame of C++ survives, and so
// the process. Here they stand still until the process is gone, as from 3.14 on.
#pragma once

#include "bind.h"

namespace etrace::python {

class Released {
 public:
  Released();
  ~Released();
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_;
};

class Taken {
 public:
  Taken();
  ~Taken();
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

 private:
  PyGILState_STATE state_;
};

// For what comes from threads of the library's own, which must not stand still: nothing, if Python is ending.
class TakenIfThere {
 public:
  TakenIfThere();
  ~TakenIfThere();
  TakenIfThere(const TakenIfThere&) = delete;
  TakenIfThere& operator=(const TakenIfThere&) = delete;
  explicit operator bool() const { return there_; }

 private:
  bool there_;
  PyGILState_STATE state_{};
};

// At the end of Python, with the GIL held: from now on only this thread gets it. Returns when all others are
// out of the library or stand still; not later than in a few seconds, if one of them is in a long program.
void end_of_python();
// Between two programs. Threads of the library's own, which end_of_python's caller waits for, go on.
void stand_still_if_ending();
[[noreturn]] void stand_still();

// While C++ has called a function of Python, which would be ended below frames of C++. The end waits for it.
class PythonCalled {
 public:
  PythonCalled();
  ~PythonCalled();
  PythonCalled(const PythonCalled&) = delete;
  PythonCalled& operator=(const PythonCalled&) = delete;
};
template <class F>
decltype(auto) python_called(F&& f) {
  const PythonCalled scope;
  return f();
}

}  // namespace etrace::python
