// What the kernels of trace_window walk over: where slots point, and the buffers of one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/context.h"
#include "kernels/etp_descriptors.h"

namespace etrace::trace_pass {

using Index = std::int64_t;

// Operands of all these kernels, in order.
enum Operand : std::uint8_t {
  kTrace,
  kTransition,
  kInjection,
  kSource,
  kGain,
  kEntry,
  kWeighted,
  kGo,
  kTotal,
  kRounding,
  kTables,  // and what follows
};

struct Axis {
  Index size, source, anchor, parameter;  // strides
  bool joins(const Axis& inner) const {
    return source == inner.source * inner.size && anchor == inner.anchor * inner.size &&
           parameter == inner.parameter * inner.size;
  }
};

template <class T>
const T* table_of(const void* const* in, std::size_t i) {
  return static_cast<const T*>(in[kTables + i]);
}

// With what tables hold, if they are given; else for sizes alone.
struct Geometry : etp_trace_window {
  explicit Geometry(const etp_trace_window&, const void* const* in = nullptr);

  std::span<const Axis> outer;  // all but rows and columns
  Axis row, column;
  const Index *source = nullptr, *anchor = nullptr, *parameter = nullptr;  // by slot, if gathered

  Axis start_of(Index matrix) const;  // its first source, anchor and parameter
};

// As many as are asked for, else `chosen`; at most `most` have something to do.
Index threads_of(const etp_trace_window&, Index chosen, Index most);
// Among how many of the context's threads a pass is worth dividing, if one that goes from step to step spends
// `per_step` times as long on an element as one that takes all steps at once.
Index threads_that_pay(const etp_trace_window&, Index threads, Index per_step = 1);

// A trace in another type than that of the sums goes through scratch, chunk by chunk.
template <class T>
struct Storage {
  std::size_t bytes = sizeof(T);
  void (*load)(const void* from, Index n, T* to) = nullptr;  // null: stored as it is computed
  void (*store)(const T* from, Index n, void* to) = nullptr;
  // Stochastically; `place` is that of the first.
  void (*round)(const T* from, Index n, void* to, std::uint32_t key, std::uint32_t place) = nullptr;
};

template <class T>
struct Buffers {
  const std::byte* trace;
  const T *transition, *injection, *source, *gain, *entry, *weighted, *total;
  const std::uint32_t* rounding;
  std::byte* next;
  T* gradient;
  Storage<T> storage;
  bool as_computed() const { return storage.load == nullptr; }
  void load(const std::byte* from, Index n, T* to) const { storage.load(from, n, to); }
  void store(const T* from, Index n, std::byte* to) const {
    if (rounding == nullptr) return storage.store(from, n, to);
    const auto place = static_cast<std::size_t>(to - next) / storage.bytes;
    storage.round(from, n, to, *rounding, static_cast<std::uint32_t>(place));
  }
};

// The code of a form, for sums of one type. Where it does not add the gradient so far, who calls it does.
template <class T>
struct FormCode {
  Index (*threads)(const etp_trace_window&, Index threads);
  std::size_t (*scratch_bytes)(const etp_trace_window&, Index threads);
  void (*run)(const etp_trace_window&, const etp_context&, const void* const* in, const Buffers<T>&,
              void* scratch);
  bool (*adds_total)(const etp_trace_window&) = [](const etp_trace_window&) { return false; };
};

template <class T>
std::size_t whole_lines(Index elements) {  // bytes, to the end of a cache line
  return static_cast<std::size_t>((elements * static_cast<Index>(sizeof(T)) + 63) / 64 * 64);
}

}  // namespace etrace::trace_pass
