// A program as a learner runs it: a closed jaxpr whose arguments and results have names, roles and, where a
// result replaces an argument, one place in memory for both. Backends take these (etrace/backend.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

// What a value is to the learner.
enum class PortRole : std::uint8_t {
  Param,           // a leaf of a parameter
  State,           // a hidden or other state of the model
  Trace,           // a slot of the learning rule
  RuleParam,       // a parameter of the learning rule's own
  Counter,         // steps and calls that the traces have seen
  OptimizerSlot,   // what the optimiser remembers
  Hyperparameter,  // learning rate, decay, …: may change between runs, nothing is compiled again
  Arg,             // an argument of the model
  Slice,           // data that a step function reads
  Weight,          // of the loss of each step
  Key,             // for random numbers
  Signal,          // ∂L/∂h from elsewhere, or a modulator
  Loss,
  Result,    // of the model
  Aux,       // of the step function
  Gradient,  // of the loss; as an argument: the sum so far
  Finite,    // a truth value: what the program carries on is finite; if not, it has carried on nothing
};
std::string_view name(PortRole);  // "optimizer_slot"

struct Port {
  std::string name;  // "rnn/W/weight", "relation0/group0/weight", "adam.lr" …
  PortRole role = PortRole::Arg;
  Aval aval;
};

// Result and argument are one buffer: the run replaces the value in place.
struct Alias {
  std::size_t result = 0, argument = 0;
};

struct Program {
  std::string name;  // "step", "window" …
  ClosedJaxpr jaxpr;
  std::vector<Port> arguments, results;  // one per invar, one per out
  std::vector<Alias> aliases;            // ascending by result; each argument at most once
  // The result has a buffer of its own, which becomes the argument's if the run was finite: what is known to
  // be finite only once it is there. Ascending by result; no argument of these is in `aliases`.
  std::vector<Alias> exchanges = {};
};

// The jaxpr is well typed, ports have its types, aliased pairs have the same type. CompilationError
// otherwise.
void check(const Program&);
// Ports, aliases and equations as text.
std::string to_string(const Program&);

}  // namespace etrace
#pragma GCC visibility pop
