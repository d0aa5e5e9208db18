// A recording in progress, and what an Array handle holds. Start reading at Recorder::add.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "etrace/array.h"
#include "etrace/primitive.h"

namespace etrace {

// Nested recordings are told apart by level: one that starts later is further in. The level is a process-wide
// counter, used only to compare recordings that are open at the same time in one call chain.
class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  Recorder();

  std::uint64_t level() const { return level_; }
  Array input(const Aval&);
  // Records one equation; operands of enclosing recordings and concrete arrays are captured.
  Arrays add(const Primitive&, ArraySpan in, const Params&);
  Recording finish(ArraySpan outs);
  bool open() const { return open_; }

  // The innermost recording whose function is running on this thread; null if none is. Which recording an
  // operation belongs to never depends on it: it tells code with side effects where it stands.
  static const Recorder* running();
  // Alive while the function runs. Its end, also by an exception, ends the recording: tracers that leaked are
  // recognised.
  class Running {
   public:
    explicit Running(Recorder&);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Recorder& recorder_;
    const Recorder* previous_;
  };

 private:
  Atom atom(const Array&);                // how this recording refers to a value
  Var capture(const Array&);              // a constvar for a value from outside
  Var capture_numbers(const Array&);      // the same for a concrete one
  Var constant(const Array&);             // a new constvar
  Var splat(const Aval&, const Scalar&);  // broadcast_in_dim of a literal, once per value
  Array tracer(const Var&);

  std::uint64_t level_;
  bool open_ = true;
  Jaxpr jaxpr_;
  Arrays captured_;
  std::unordered_map<std::uint64_t, Var> captured_vars_;  // id of an outer Var -> constvar
  std::unordered_map<const void*, std::size_t>
      captured_tensors_;  // where its numbers lay -> index of captured_
  struct SplatEntry {
    Aval aval;
    Literal value;
    Var var;
  };
  std::vector<SplatEntry> splats_;
};

struct Array::Rep {
  struct Splat {
    Scalar value;
    bool weak;
  };
  struct Tracer {
    std::shared_ptr<Recorder> recorder;
    Var var;
  };
  Aval aval;
  std::variant<Tensor, Splat, Tracer> value;
};

inline const Array::Rep::Tracer* tracer_of(const Array& a) {
  return a.defined() ? std::get_if<Array::Rep::Tracer>(&a.rep()->value) : nullptr;
}

// The same array with memory of its own, if somebody else may write what it stands on: for whoever keeps it.
Array own(const Array&);

}  // namespace etrace
