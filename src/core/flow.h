// Who makes and who reads each value of a program, and what depends on what: by value, or by derivative,
// which passes no operation that ends derivatives and no number that is not floating. Equations with bodies
// count as one; what is known of values is carried into bodies by core/dataflow.h.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

using VarIds = std::unordered_set<std::uint64_t>;
VarIds ids_of(const std::vector<Var>&);
VarIds ids_of(const std::vector<Atom>&);
inline bool holds(const VarIds& ids, const Atom& a) {
  const Var* v = as_var(a);
  return v != nullptr && ids.contains(v->id);
}
bool reads(const Eqn&, const VarIds&);  // one of them
bool makes(const Eqn&, const VarIds&);

enum class By : std::uint8_t { Value, Derivative };
struct Following {
  By by = By::Value;
  std::function<bool(const Eqn&)> enters = {};  // none: every equation
  std::function<bool(const Var&)> passes = {};  // what is refused is reached, but hands nothing on; none: all
  bool lets_in(const Eqn&) const;
  bool counts(const Var&) const;
};

struct Reached {
  VarIds values;                  // the given ones included
  std::vector<std::size_t> eqns;  // positions of the equations on the way, in order
  bool holds(const Atom& a) const { return etrace::holds(values, a); }
};
Reached forward(const Jaxpr&, VarIds from, const Following& = {});
Reached backward(const Jaxpr&, VarIds of, const Following& = {});
// Equations on a way from the one to the other.
std::vector<std::size_t> between(const Jaxpr&, const VarIds& from, const VarIds& to, const Following& = {});

class ProgramIndex {
 public:
  explicit ProgramIndex(const Jaxpr&);
  const Jaxpr& jaxpr() const { return *jaxpr_; }
  const Eqn& eqn(std::size_t i) const { return jaxpr_->eqns[i]; }
  // Position of the equation that makes a Var; none for inputs and constants.
  const std::size_t* producer(const Var&) const;
  const Eqn* maker(const Atom&) const;
  // Positions of the equations that read a Var, in order, one per occurrence.
  const std::vector<std::size_t>& consumers(const Var&) const;
  // How often equations and results read it.
  std::size_t uses(const Var&) const;

 private:
  const Jaxpr* jaxpr_;
  std::unordered_map<std::uint64_t, std::size_t> producer_, results_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> consumers_;
};

}  // namespace etrace
#pragma GCC visibility pop
