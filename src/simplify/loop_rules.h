// Rules for loops and branches, in the terms of simplify/rewrite.h: what a body need not be told, need not
// compute in every step, and need not hand out.
#pragma once

#include <unordered_set>

#include "control/splice.h"
#include "simplify/rewrite.h"

namespace etrace {

const RuleTable& loop_rules();
void add_scan_rules(RuleTable&);
void add_while_rules(RuleTable&);
void add_cond_rules(RuleTable&);

// What the rules share
// ---------------------------------------------------------------------------------------- Operands that a
// body reads and never changes: the body's inputs, and the atoms outside that they stand for.
struct Invariants {
  std::vector<Var> inner;
  std::vector<Atom> outer;

  void add(const Var& in, const Atom& out) {
    inner.push_back(in);
    outer.push_back(out);
  }
};
// Constants of the body become operands: equal ones of several bodies are one then.
void lift_constants(Rewriter&, ClosedJaxpr& body, Invariants&);
// Operands that the body does not read are dropped, repeated ones merged, and uniform ones written into the
// body as literals. True if anything changed.
bool tidy(const Rewriter&, Jaxpr& body, Invariants&);

// Which Vars some equation or output reads.
std::unordered_set<std::uint64_t> vars_read(const Jaxpr&);
// The equations of a body copied into the program being written; `names` holds its inputs. The outputs.
std::vector<Atom> write_body(Rewriter&, const Jaxpr& body, Renaming& names);
// The arrays of a body that are known to hold one value everywhere.
class UniformInBody {
 public:
  explicit UniformInBody(const Jaxpr&);
  std::optional<Literal> operator()(const Atom&) const;

 private:
  std::unordered_map<std::uint64_t, Literal> values_;
};

}  // namespace etrace
