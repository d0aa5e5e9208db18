// Who produces and who reads each Var of a program.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "etrace/etp.h"
#include "etrace/ir.h"

namespace etrace {

using VarIds = std::unordered_set<std::uint64_t>;

class ProgramIndex {
 public:
  explicit ProgramIndex(const Jaxpr& jaxpr) : jaxpr_(&jaxpr) {
    for (std::size_t i = 0; i < jaxpr.eqns.size(); ++i) {
      for (const Var& v : jaxpr.eqns[i].out) producer_.emplace(v.id, i);
      for (const Atom& a : jaxpr.eqns[i].in)
        if (const Var* v = as_var(a)) consumers_[v->id].push_back(i);
    }
  }
  const Jaxpr& jaxpr() const { return *jaxpr_; }
  const Eqn& eqn(std::size_t i) const { return jaxpr_->eqns[i]; }
  // Position of the equation that defines a Var; none for inputs and constants.
  const std::size_t* producer(const Var& v) const {
    const auto it = producer_.find(v.id);
    return it == producer_.end() ? nullptr : &it->second;
  }
  // Positions of the equations that read a Var, in order, one per occurrence.
  const std::vector<std::size_t>& consumers(const Var& v) const {
    static const std::vector<std::size_t> none;
    const auto it = consumers_.find(v.id);
    return it == consumers_.end() ? none : it->second;
  }

 private:
  const Jaxpr* jaxpr_;
  std::unordered_map<std::uint64_t, std::size_t> producer_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> consumers_;
};

// An ETP operator that mixes positions: everything but the element-wise one. It ends every tail and, in the
// diagonal scope, every transition.
inline bool is_mixing_etp(const Eqn& eqn) {
  const EtpRules* rules = etp_rules(*eqn.prim);
  return rules != nullptr && !rules->gradient_enabled;
}

// Whether a program holds an ETP operator at any depth.
bool contains_etp(const Jaxpr&);

}  // namespace etrace
