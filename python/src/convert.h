// Numbers across the border: NumPy, the buffer protocol, DLPack, Python's own numbers and lists.
#pragma once

#include "bind.h"

namespace etrace::python {

enum class Copy : std::uint8_t { IfNeeded, Never, Always };

// Shares the memory of `source` where type and layout allow, and keeps its owner alive; copies otherwise. A
// bare Python number adapts to what it meets, like a number in C++ (Array::is_weak). Tracers stay what they
// are.
Array to_array(nb::handle source, std::optional<Dtype> dtype = {}, Copy copy = Copy::IfNeeded);
// The same with memory of its own and an element type of its own, for whoever keeps it: states, parameters.
Array to_owned(nb::handle source, std::optional<Dtype> dtype = {});
Array owned(const Array&);  // copied if it stands on memory that somebody else may write

bool is_array(nb::handle);  // an et.Array
// Python's wording for a type of an argument: "a list", "numpy.ndarray of complex128".
std::string describe(nb::handle);
std::string text_of(nb::handle);  // str(x)

// The first line outside of the package among the callers: what an equation or an error is traced to.
Origin user_line();
// While alive, what is recorded belongs to the user's line. Does nothing unless something is recorded.
class LineScope {
 public:
  explicit LineScope(ArraySpan operands);
  explicit LineScope(const Array& operand) : LineScope(ArraySpan(&operand, 1)) {}

 private:
  std::optional<OriginScope> scope_;
};

// A Python number or array for buffer consumers.
const char* buffer_format(Dtype);  // struct's letter; null: there is none (bfloat16)

}  // namespace etrace::python
