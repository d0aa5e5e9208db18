// What the code of trace_window walks over: where slots point, and the buffers of one run. Private to ops/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/trace_window.h"

namespace etrace::trace {

using Index = std::int64_t;

struct Axis {
  Index size, source, anchor, parameter;  // strides
  bool joins(const Axis& inner) const {
    return source == inner.source * inner.size && anchor == inner.anchor * inner.size &&
           parameter == inner.parameter * inner.size;
  }
};

struct Geometry {
  Index batch, states, steps, positions, elements, slots, parameters;
  std::vector<Axis> outer;  // all but rows and columns
  Axis row{1, 0, 0, 0}, column{1, 0, 0, 0};
  std::vector<Index> source, anchor, parameter;  // by slot, if one of the maps is a table
  bool gathered() const { return !anchor.empty(); }
  bool shared = false;  // several slots add to one element of the gradient

  Index matrices() const;             // rows × columns, over the outer axes
  Axis start_of(Index matrix) const;  // its first source, anchor and parameter
};

Geometry geometry_of(const KernelRequest&);
// Among how many threads a pass is worth dividing.
Index threads_that_pay(const Geometry&);
// One per slot axis, as the strides of a pattern say; and how many elements the parameter has.
std::vector<Axis> axes_of(const TracePattern&, bool has_source, Index& parameters);

// A trace in another type than that of the sums goes through scratch, chunk by chunk.
template <class T>
struct Storage {
  std::size_t bytes = sizeof(T);
  void (*load)(const void* from, Index n, T* to) = nullptr;  // null: stored as it is computed
  void (*store)(const T* from, Index n, void* to) = nullptr;
};

template <class T>
struct Buffers {
  const std::byte* trace;
  const T *transition, *injection, *source, *gain, *entry, *weighted, *total;
  std::byte* next;
  T* gradient;
  Storage<T> storage;
  bool as_computed() const { return storage.load == nullptr; }
};

template <class T>
Buffers<T> buffers_of(const KernelArgs& args, const Layout& at, const Storage<T>& storage) {
  const auto operand = [&](std::optional<std::size_t> i) {
    return i ? static_cast<const T*>(args.in[*i]) : nullptr;
  };
  return {static_cast<const std::byte*>(args.in[at.trace]),
          operand(at.transition),
          operand(at.injection),
          operand(at.source),
          operand(at.gain),
          operand(at.entry),
          operand(at.weighted),
          operand(at.total),
          static_cast<std::byte*>(args.out[0]),
          at.entry ? static_cast<T*>(args.out[1]) : nullptr,
          storage};
}

}  // namespace etrace::trace
