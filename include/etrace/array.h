// Array: what model code holds. A handle to numbers, or to a value of a program that is being recorded.
//
// Operations on concrete arrays run at once. An operation with at least one recorded operand is recorded, by
// the innermost recording among its operands. There is no global trace: the operands carry it.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "etrace/aval.h"
#include "etrace/ir.h"
#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

class Recorder;  // a recording in progress; private to trace/

class Array {
 public:
  Array() = default;  // undefined: a symbolic zero, or an operand that is not given

  // A C++ number adapts to the element type of what it meets: `1.0 - y` has y's type. Alone it is f32, i32 or
  // bool.
  Array(double value);          // NOLINT: implicit on purpose, so that formulas read like mathematics
  Array(float value);           // NOLINT
  Array(int value);             // NOLINT
  Array(std::int64_t value);    // NOLINT
  Array(bool value);            // NOLINT
  Array(const void*) = delete;  // text and other pointers would be `true`
  Array(Tensor value);          // NOLINT: an array is a tensor or stands for one

  bool defined() const { return rep_ != nullptr; }
  explicit operator bool() const =
      delete;  // the value of a condition is not known while tracing: use where/cond

  const Aval& aval() const;  // TypeError if undefined
  const Shape& shape() const { return aval().shape; }
  Dtype dtype() const { return aval().dtype; }
  std::size_t rank() const { return shape().rank(); }
  std::int64_t size() const { return shape().size(); }
  std::int64_t dim(int axis) const;  // negative counts from the end

  bool is_tracer() const;
  bool is_weak() const;                 // a bare C++ number
  Tensor tensor() const;                // the numbers; TypeError for a tracer, naming what to do
  std::optional<Scalar> splat() const;  // the one value of all elements, if that is known without looking
  template <class T>
  T item() const {  // the only element, converted
    return static_cast<T>(to_double(scalar_item()));
  }
  // "f32[2,2] [[0.5, 1], [2, -3]]"; of many elements the first and last along each axis.
  friend std::ostream& operator<<(std::ostream&, const Array&);

  struct Rep;  // private to trace/
  explicit Array(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  const Rep* rep() const { return rep_.get(); }

 private:
  Scalar scalar_item() const;
  std::shared_ptr<const Rep> rep_;
};
std::ostream& operator<<(std::ostream&, const Array&);

using Arrays = std::vector<Array>;
using ArraySpan = std::span<const Array>;
using Function = std::function<Arrays(ArraySpan)>;

// All elements equal; stays symbolic (no memory) until a kernel needs it.
Array full(const Shape&, const Scalar& value, Dtype dtype);
Array full_like(const Array& like, const Scalar& value);
Array zeros_of(const Aval&);
// Array or, where undefined, zeros of that type.
Array instantiate(const Array&, const Aval&);

// Recording -------------------------------------------------------------------------------------------------
// What was recorded: jaxpr.constvars stand for `captured`, arrays from outside f that f used (concrete, or
// tracers of an enclosing recording).
struct Recording {
  Jaxpr jaxpr;
  Arrays captured;
};
Recording record(std::span<const Aval> in, const Function& f);

// Traces f. Captured arrays must be concrete: CompilationError if f uses a tracer of an enclosing recording.
ClosedJaxpr make_jaxpr(const Function& f, std::span<const Aval> in);
ClosedJaxpr close(Recording);

// Runs the equations one by one through bind_primitive(): evaluates concrete arguments, or inlines into a
// recording.
Arrays eval_jaxpr(const Jaxpr&, ArraySpan consts, ArraySpan args);
Arrays eval_jaxpr(const ClosedJaxpr&, ArraySpan args);

// The module (and line) that operations belong to while the scope is alive. A relative origin is joined to
// that of the enclosing scope; an absolute one (of an equation that is evaluated again) takes its place
// unless it is empty.
class OriginScope {
 public:
  enum Kind { Relative, Absolute };
  explicit OriginScope(Origin, Kind = Relative);
  ~OriginScope();
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;
  static const Origin& current();

 private:
  Origin previous_;
};

Avals avals_of(ArraySpan);
Arrays to_arrays(std::span<const Tensor>);
Tensors to_tensors(ArraySpan);  // TypeError for a tracer

}  // namespace etrace
#pragma GCC visibility pop
