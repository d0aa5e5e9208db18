// Where every value of a program lies while it runs, and in which order the equations run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "etrace/primitive.h"
#include "etrace/program.h"

namespace etrace {

// The values of a program, numbered. The result of a view is the value of its operand.
struct Values {
  // Where a value comes from.
  enum class Source : std::uint8_t { Argument, Constant, Literal, Call };
  struct Value {
    Source source;
    std::size_t index;   // of the argument, the constvar, the literal or the equation
    std::size_t result;  // of that equation
    std::size_t bytes;
  };
  std::vector<Value> all;
  std::vector<Literal> literals;
  std::vector<std::size_t> arguments, outs;                 // one per invar, one per out
  std::vector<std::vector<std::size_t>> operands, results;  // one list per equation

  std::size_t size() const { return all.size(); }
  bool is_argument(std::size_t v) const { return all[v].source == Source::Argument; }
  bool is_computed(std::size_t v) const { return all[v].source == Source::Call; }
};
Values number_values(const Jaxpr&, const std::vector<Kernel>&);  // one kernel per equation

// Whether result `result` of an equation may lie where its operand value lies: at every position at which it
// reads that value.
bool may_replace(const Kernel&, const std::vector<std::size_t>& operands, std::size_t result,
                 std::size_t value);

struct Place {
  enum Kind : std::uint8_t { Argument, Result, Arena, Constant, Literal } kind = Arena;
  std::size_t index = 0;  // of the argument, result, constvar or literal; byte offset in the arena
  friend bool operator==(const Place&, const Place&) = default;
};

struct MemoryPlan {
  struct Call {
    std::size_t eqn;
    std::vector<Place> in, out;
    std::size_t scratch;  // byte offset in the arena
  };
  struct Copy {
    Place to, from;
    std::size_t bytes;
  };
  std::vector<Copy> before;
  std::vector<Call> calls;
  std::vector<Copy> after;
  std::size_t arena_bytes = 0;
};

// The plan is right whether or not the two pointers of an alias pair are the same: what replaces an argument
// is written to the result's place, after the last read of the argument or by a kernel that works in place.
// Where neither is possible the result is put aside and copied at the end.
MemoryPlan plan_memory(const Values&, const std::vector<Kernel>&, const std::vector<Alias>&);

// Pairs that need nothing aside: results that are an argument, or that come from it by kernels in place.
std::vector<Alias> natural_aliases(const Jaxpr&, const Values&, const std::vector<Kernel>&);

// Follows the plan call by call and checks that every read finds the value that it wants, with alias pairs in
// one place and apart. InternalError otherwise.
void check_plan(const MemoryPlan&, const Values&, const std::vector<Kernel>&, const std::vector<Alias>&);

}  // namespace etrace
