// The process around the library: interrupts, warnings, threads, backends.
#include <mutex>

#include "bind.h"
#include "etrace/host.h"
#include "gil.h"
#include "native/background.h"
#include "recording.h"
#include "runtime/thread_pool.h"

namespace etrace::python {

namespace {

unsigned long main_thread = 0;  // the only one that Python gives signals to

// A call that wants to end well: the error is kept for it; it is thrown once the call has had its time.
void after_signal(Call& call, bool signalled) {
  std::exception_ptr error;
  if (signalled) {
    call.signalled = true;
    error = std::make_exception_ptr(nb::python_error());
  }
  if (!call.signalled || call.on_signal(error)) return;
  if (error) std::rethrow_exception(error);
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw nb::python_error();
}

// Between two programs of a call from Python, and between two steps of a loop that runs at once: signals,
// then progress.
void between_programs() {
  Call* const call = Call::current();
  if (call == nullptr && PyThread_get_thread_ident() != main_thread)
    return;  // perhaps one of the library's own
  const Taken gil;
  const bool signalled = PyErr_CheckSignals() != 0;
  if (call != nullptr && call->on_signal) {
    after_signal(*call, signalled);
    return;
  }
  if (signalled) throw nb::python_error();
  if (call == nullptr) return;
  if (call->progress.is_valid() && call->done) call->progress(call->done());
}

// Warnings come from any thread; Python hears them when a call of its own is over.
struct Waiting {
  std::mutex mutex;
  std::vector<std::string> texts;
};
Waiting& waiting() {
  static Waiting& instance = *new Waiting;
  return instance;
}

}  // namespace

void show_warnings() {
  std::vector<std::string> texts;
  {
    const std::lock_guard lock(waiting().mutex);
    texts.swap(waiting().texts);
  }
  for (const std::string& t : texts)
    if (PyErr_WarnEx(PyExc_RuntimeWarning, ("etrace: " + t).c_str(), 1) != 0) throw nb::python_error();
}

void bind_host(nb::module_& m) {
  main_thread =
      nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  set_interrupt_hook(between_programs);
  set_warning_sink([](const std::string& text) {
    const std::lock_guard lock(waiting().mutex);
    waiting().texts.push_back(text);
  });
  // Before the interpreter goes: what runs in the background is waited for, and asks nobody any more.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    set_interrupt_hook(stand_still_if_ending);
    set_warning_sink({});
    end_of_python();
    const Released gil;
    native::drop_compilations();
  }));
  m.def(
      "set_num_threads",
      [](int n) {
        if (n < 1)
          throw ValueError("threads", "a pool of " + std::to_string(n) + " threads; expected at least 1");
        if (Call::under_way() > 0)
          throw Error("threads", "a learner is at work; the threads are changed between calls");
        set_num_threads(n);
      },
      "n"_a, "Threads that programs run on, the caller included. Not while a program runs.");
  m.def("num_threads", [] { return default_pool().size(); });
  m.def(
      "backends",
      [] {
        nb::dict out;
        for (const Backend* b : backends()) out[nb::cast(b->name())] = nb::cast(b->doc());
        return out;
      },
      "What can run programs: {name: what it is}.");
  m.def("default_backend", &default_backend);
  m.def(
      "wait_for_compilations",
      [] {
        {
          const Released gil;
          native::wait_for_compilations();
        }
        show_warnings();
      },
      "Returns when all native code that was asked for is compiled.");
}

}  // namespace etrace::python
