// Rewriting: a program is written anew, equation by equation. A rule says what an equation equals, to the
// last bit; what it writes on the way is reduced by the same rules before it is kept. Equations that repeat
// an earlier one, and constants that repeat another, are not written twice.
//
// One walk is linear in the equations: a rule looks at an equation and at the definitions of its operands.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "etrace/array.h"
#include "etrace/ir.h"
#include "etrace/primitive.h"

namespace etrace {

class Rewriter;

// What the results of an equation equal; nothing if the rule does not apply. One result: the atom.
using Rule = std::optional<Atom> (*)(Rewriter&, const Eqn&);
using ManyResultsRule = std::optional<std::vector<Atom>> (*)(Rewriter&, const Eqn&);

// Rules by primitive, tried in the order in which they were added; those for elementwise operations come
// last.
class RuleTable {
 public:
  void add(const Primitive& p, Rule r) { of_primitive_[&p].push_back(r); }
  void add(std::initializer_list<const Primitive*> all, Rule r) {
    for (const Primitive* p : all) add(*p, r);
  }
  void add_elementwise(Rule r) { elementwise_.push_back(r); }
  void add_many(const Primitive& p, ManyResultsRule r) { many_[&p].push_back(r); }

  std::vector<Rule> of(const Primitive&) const;
  const std::vector<ManyResultsRule>* many(const Primitive&) const;

 private:
  std::unordered_map<const Primitive*, std::vector<Rule>> of_primitive_;
  std::unordered_map<const Primitive*, std::vector<ManyResultsRule>> many_;
  std::vector<Rule> elementwise_;
};

// What a walk does besides merging equal equations.
struct RewriteOptions {
  const RuleTable* rules = nullptr;
  bool merge_constants = true;  // equal ones become one, uniform ones a broadcast literal
  std::int64_t fold_up_to = 0;  // evaluates what is known, up to this many elements; 0: nothing
};

class Rewriter {
 public:
  explicit Rewriter(const RewriteOptions& options) : options_(options) {}
  ClosedJaxpr run(ClosedJaxpr);  // once
  bool changed() const { return changed_; }

  // For rules -----------------------------------------------------------------------------------------------
  // The equation that defines an atom; null for inputs, constants and literals, or if it is of another
  // primitive. References stay valid while the walk lasts.
  const Eqn* definition(const Atom&) const;
  const Eqn* definition(const Atom&, const Primitive&) const;
  // The one value of all elements, if that is known.
  std::optional<Literal> uniform(const Atom&) const;
  // Read nowhere but in the equation at hand (as far as can be seen): if that goes, so does its definition.
  bool used_once(const Atom&) const;

  // Does the operation of this equation take operands of these types, for a result of that one? An operation
  // may be elementwise and still refuse scalars or another rank.
  static bool accepts(const Eqn&, std::span<const Aval> in, const Aval& out);

  // An equation with one result, reduced; the atom that holds it.
  Atom write(const Primitive&, std::vector<Atom> in, const Params& params = {});
  std::vector<Atom> write_all(const Primitive&, std::vector<Atom> in, const Params& params = {});
  // An equation of a body, with operands renamed: its results are fresh.
  std::vector<Atom> write_copy(const Eqn&);
  Atom full(const Aval&, const Literal& value);  // a literal, or one broadcast
  Atom constant(const Tensor&);

 private:
  std::vector<Atom> reduce(Eqn);
  std::optional<std::vector<Atom>> rewritten(const Eqn&);
  std::optional<std::vector<Atom>> folded(const Eqn&);
  std::optional<std::vector<Atom>> twin(const Eqn&, std::size_t hash) const;
  const std::vector<Rule>& rules_of(const Primitive&);
  Array known(const Atom&) const;
  Atom add_constant(const Tensor&, const Var*);
  Atom replaced(const Atom&) const;
  void replace(const Var& from, const Atom& to);

  RewriteOptions options_;
  std::vector<Var> constvars_;
  Tensors consts_;
  std::deque<Eqn> eqns_;  // references stay valid
  std::unordered_map<std::uint64_t, const Eqn*> definitions_;
  std::unordered_map<std::uint64_t, std::size_t> constant_of_;  // position in consts_
  std::unordered_map<std::uint64_t, Atom> replacements_;
  std::unordered_map<std::uint64_t, std::size_t> uses_;
  std::unordered_multimap<std::size_t, const Eqn*> seen_;             // by hash of the computation
  std::unordered_multimap<std::size_t, std::size_t> seen_constants_;  // by hash of a sample of the bytes
  std::unordered_map<const Primitive*, std::vector<Rule>> rules_;     // collected from the table once
  Origin origin_;                                                     // of the equation at hand
  bool changed_ = false;                                              // something was replaced
};

// In place; true if anything changed.
bool rewrite(ClosedJaxpr&, const RewriteOptions&);

// The rules of this layer: shapes, arithmetic, products.
const RuleTable& canonical_rules();
void add_shape_rules(RuleTable&);
void add_arithmetic_rules(RuleTable&);
void add_product_rules(RuleTable&);
void add_final_rules(RuleTable&);  // for programs that run: what only a derivative reads goes

bool same_atom(const Atom&, const Atom&);
// The value of all elements, bit by bit. Any size: looks no further than the first that differs.
std::optional<Literal> uniform_value(const Tensor&);

}  // namespace etrace
