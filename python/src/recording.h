// Python functions that the library calls while it records: the step of a model, a step function, a loss.
//
// C++ keeps none of them. They stand in a Call, which lives on the stack of the Python call that is under
// way; what the library keeps asks the innermost Call of its thread. So no cycle leads through C++, and
// nothing of Python is left when the call is over.
#pragma once

#include <exception>

#include "bind.h"
#include "calls.h"

namespace etrace::python {

struct Call {
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  static Call* current();  // null: none on this thread
  static int under_way();  // of all threads

  const Module* root = nullptr;   // the module whose step `update` is
  nb::handle update;              // list of arrays -> list of arrays
  nb::handle function;            // a step function: list of slices -> (loss, list of aux); or a loss:
                                  // (list of results, target) -> loss
  const void* learner = nullptr;  // who records
  StepCall* model = nullptr;      // while a step function runs
  std::vector<nb::handle> rules;  // those that are written in Python
  nb::handle progress;            // called with the steps that were done
  std::function<std::int64_t()> done;
  // A call that may go on for a while after a signal: told the exception, and asked again with none between
  // programs; true: it goes on.
  std::function<bool(std::exception_ptr)> on_signal;
  bool signalled = false;

 private:
  Call* previous_;
};

// The mirror of a module written in Python: it has its states and children, and no Python object.
class Node final : public Module {
 public:
  explicit Node(std::string type) : type_(std::move(type)) {}
  const std::string& type() const { return type_; }  // the class in Python
  Arrays update_all(ArraySpan x) override;

 private:
  std::string type_;
};

// A step function that is the Python function of the Call that records it. Each has an identity of its own.
struct PythonFunction {
  StepFunction step;
  static PythonFunction of_steps();
  static PythonFunction of_loss(bool windows, bool per_sample);
};
// The loss of the Call under way: (list of results, target) -> loss.
Array loss_of_call(ArraySpan results, const Array& target);

nb::tuple to_tuple(ArraySpan);

}  // namespace etrace::python
