// K steps of a one-step program, cut so that only what must run in sequence does:
//   fixed    depends on neither data nor states: once
//   before   data of the step, no state: all steps side by side
//   body     what the next states need, and what reads a few places of a large state: a loop
//   after    the rest: all steps side by side, from values that the loop and `before` hand on
//   wide     of the rest, what goes through values far larger than all that a step takes and gives, as a
//            Jacobian of coupled positions: a loop, since K of them at once would not fit into memory
// Nothing is computed twice.
#pragma once

#include "etrace/array.h"
#include "etrace/transform.h"

namespace etrace {

class StepSplit {
 public:
  enum class Input : std::uint8_t { Fixed, PerStep, Carried };
  // The first results are the new values of the carried inputs, in their order. `per_sample`: which of these
  // have a leading axis of samples; the others are shared by all samples.
  StepSplit(ClosedJaxpr step, std::vector<Input> inputs, std::vector<bool> per_sample);

  struct Result {
    Arrays carried;
    Arrays outs;  // the other results: [K, …] where stacked, else the same for every step
    std::vector<bool> stacked;
    Array all_steps(std::size_t i, std::int64_t steps) const;  // [K, …] whatever it is
  };
  // Inputs in the program's order, those per step with a leading axis K. active: [K], or [K, B] per sample:
  // steps that do not count leave what is carried as it was (what samples share goes on while one of them
  // does); undefined: all count.
  Result run(std::int64_t steps, ArraySpan inputs, const Array& active) const;

 private:
  struct Part {
    std::vector<Var> in, out;
    std::vector<Eqn> eqns;
  };
  void read_in_loop(std::vector<Part*>& places);
  Arrays eval(const Part&, ArraySpan in) const;
  Result run_once(ArraySpan inputs, const Array& active) const;

  ClosedJaxpr step_;
  std::vector<Input> inputs_;
  std::vector<bool> per_sample_;
  std::size_t num_carried_ = 0;
  Part fixed_, before_, body_, after_, wide_;
  std::vector<bool> out_stacked_;
};

// What is carried over a step that may not count. active: a truth value, or one per sample.
Array unless_frozen(const Array& active, const Array& next, const Array& old, bool per_sample);

}  // namespace etrace
