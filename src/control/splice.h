// Copying a body's equations into a program, with Vars of its own for every copy.
#pragma once

#include <unordered_map>
#include <vector>

#include "etrace/ir.h"

namespace etrace {

// What each Var of a body stands for in the program that it is copied into.
class Renaming {
 public:
  void set(const Var& from, const Atom& to) { map_.insert_or_assign(from.id, to); }
  Atom operator()(const Atom& a) const {
    const Var* v = as_var(a);
    if (v == nullptr) return a;
    const auto it = map_.find(v->id);
    return it == map_.end() ? a : it->second;
  }
  std::vector<Atom> operator()(const std::vector<Atom>& atoms) const {
    std::vector<Atom> out;
    out.reserve(atoms.size());
    for (const Atom& a : atoms) out.push_back((*this)(a));
    return out;
  }

 private:
  std::unordered_map<std::uint64_t, Atom> map_;
};

// Appends a copy of the body's equations to `eqns`; its constants become constants of `into`. Returns the
// atoms that the body's outputs stand for (a pass-through output is the argument itself).
std::vector<Atom> splice(const ClosedJaxpr& body, const std::vector<Atom>& args, ClosedJaxpr& into,
                         std::vector<Eqn>& eqns);
// The same with a renaming that already holds the body's inputs and constants; it is extended by what the
// body defines.
void splice_eqns(const Jaxpr& body, Renaming& names, std::vector<Eqn>& eqns);
// Constants of the body as constants of `into`.
void lift_consts(const ClosedJaxpr& body, Renaming& names, ClosedJaxpr& into);

}  // namespace etrace
