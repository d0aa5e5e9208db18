#include "recording.h"
#include "gil.h"

#include <atomic>

#include "convert.h"

namespace etrace::python {

namespace {
thread_local Call* innermost = nullptr;
std::atomic<int> calls{0};

Call& call_with_function() {
  Call* const call = Call::current();
  ETRACE_CHECK(call != nullptr && call->function.is_valid());
  return *call;
}

// Puts back what stood there.
template <class T>
class Instead {
 public:
  Instead(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Instead() { place_ = before_; }
  Instead(const Instead&) = delete;
  Instead& operator=(const Instead&) = delete;

 private:
  T& place_;
  T before_;
};

LossAndAux step_of_call(StepCall& model, ArraySpan slices) {
  Call& call = call_with_function();
  const Taken gil;
  const Instead here(call.model, &model);
  const nb::object out = python_called([&] { return call.function(to_list(slices)); });
  return {returned(out[0], "the step function"), returned_list(out[1])};
}

}  // namespace

Call::Call() : previous_(std::exchange(innermost, this)) { calls.fetch_add(1, std::memory_order_relaxed); }
Call::~Call() {
  innermost = previous_;
  calls.fetch_sub(1, std::memory_order_relaxed);
}
int Call::under_way() { return calls.load(std::memory_order_relaxed); }
Call* Call::current() { return innermost; }

Arrays Node::update_all(ArraySpan x) {
  Call* const call = Call::current();
  if (call == nullptr || call->root != this || !call->update.is_valid())
    throw NotSupportedError("module", "a module written in Python is called from Python only",
                            OriginScope::current());
  const Taken gil;
  return returned_list(python_called([&] { return call->update(to_list(x)); }));
}

PythonFunction PythonFunction::of_steps() { return {StepFunction(step_of_call)}; }

PythonFunction PythonFunction::of_loss(bool windows, bool per_sample) {
  return {step_function(loss_of_call, windows, per_sample)};
}

Array loss_of_call(ArraySpan results, const Array& target) {
  Call& call = call_with_function();
  const Taken gil;
  return returned(python_called([&] { return call.function(to_list(results), target); }), "the loss");
}

nb::tuple to_tuple(ArraySpan arrays) { return nb::tuple(to_list(arrays)); }

}  // namespace etrace::python
