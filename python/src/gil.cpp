#include "gil.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace etrace::python {

namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int entering = 0;  // threads between the decision to take the GIL and having it
  int outside = 0;   // times that a thread is at work without it
  int called = 0;    // threads in which C++ has called Python
  bool ending = false;
  std::thread::id last;  // the thread in which Python ends
};
Gate& gate() {
  static Gate& instance = *new Gate;  // there until the process is gone
  return instance;
}

thread_local int own_outside = 0, own_called = 0;

bool shut(const Gate& g) { return g.ending && std::this_thread::get_id() != g.last; }

void enter() {
  {
    const std::lock_guard lock(gate().mutex);
    if (!shut(gate())) {
      ++gate().entering;
      return;
    }
  }
  stand_still();
}

void entered() {
  const std::lock_guard lock(gate().mutex);
  --gate().entering;
  gate().changed.notify_all();
}

}  // namespace

void stand_still() {
  {
    const std::lock_guard lock(gate().mutex);
    gate().outside -= own_outside;
    if (own_called > 0) --gate().called;
    gate().changed.notify_all();
  }
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

namespace {
void stand_still_if_shut() {
  {
    const std::lock_guard lock(gate().mutex);
    if (!shut(gate())) return;
  }
  stand_still();
}
}  // namespace

void stand_still_if_ending() {
  if (own_outside > 0) stand_still_if_shut();
}

Released::Released() : state_(PyEval_SaveThread()) {
  stand_still_if_shut();
  const std::lock_guard lock(gate().mutex);
  ++gate().outside;
  ++own_outside;
}
Released::~Released() {
  enter();
  PyEval_RestoreThread(state_);
  entered();
  const std::lock_guard lock(gate().mutex);
  --gate().outside;
  --own_outside;
  gate().changed.notify_all();
}

Taken::Taken() {
  enter();
  state_ = PyGILState_Ensure();
  entered();
}
Taken::~Taken() { PyGILState_Release(state_); }

PythonCalled::PythonCalled() {
  bool ending = false;
  {
    const std::lock_guard lock(gate().mutex);
    ending = own_called == 0 && shut(gate());
    if (!ending && own_called++ == 0) ++gate().called;
  }
  if (!ending) return;
  PyEval_SaveThread();
  stand_still();
}
PythonCalled::~PythonCalled() {
  const std::lock_guard lock(gate().mutex);
  if (--own_called > 0) return;
  --gate().called;
  gate().changed.notify_all();
}

TakenIfThere::TakenIfThere() {
  {
    const std::lock_guard lock(gate().mutex);
    there_ = !shut(gate()) && Py_IsInitialized() != 0;
    if (!there_) return;
    ++gate().entering;
  }
  state_ = PyGILState_Ensure();
  entered();
}
TakenIfThere::~TakenIfThere() {
  if (there_) PyGILState_Release(state_);
}

void end_of_python() {
  {
    const std::lock_guard lock(gate().mutex);
    gate().ending = true;
    gate().last = std::this_thread::get_id();
  }
  PyThreadState* const state = PyEval_SaveThread();
  {
    std::unique_lock lock(gate().mutex);
    gate().changed.wait_for(lock, std::chrono::seconds(5), [] {
      return gate().entering == 0 && gate().outside <= own_outside && gate().called == 0;
    });
  }
  PyEval_RestoreThread(state);
}

}  // namespace etrace::python
