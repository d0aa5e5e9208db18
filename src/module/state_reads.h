// What a function that is recorded beside a model's step, a loss or step function, reads of states:
// parameters of the step are inputs of its program, so that the loss is differentiated by them; what it
// cannot have is refused by name, and what stays a constant is said.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "etrace/module.h"

#pragma GCC visibility push(default)
namespace etrace {

// At most one counts per thread, the innermost. States find it when they are read or written.
class StateReads {
 public:
  // params: what stands for the parameter leaves of the model, in the order of its inputs.
  StateReads(const Model&, ArraySpan params);
  ~StateReads();  // every state that was read gets its value back
  StateReads(const StateReads&) = delete;
  StateReads& operator=(const StateReads&) = delete;
  static StateReads* active();
  static std::uint64_t made();  // reads of states by this thread so far, whoever counts
  static void count();

  void touch(const State&);
  // NotSupportedError: what a recorded function writes would be written once.
  [[noreturn]] void refuse_write(const State&) const;
  const Model& model() const { return model_; }
  ArraySpan params() const { return params_; }

 private:
  struct Before {
    const State* state;
    Arrays values;
  };
  std::string path_of(const State&) const;

  const Model& model_;
  ArraySpan params_;
  StateReads* outer_;
  std::unordered_map<const State*, std::vector<std::pair<std::size_t, Array>>> known_;  // leaf, its input
  std::vector<Before> before_;
  std::unordered_set<const State*> said_;
};

}  // namespace etrace
#pragma GCC visibility pop
