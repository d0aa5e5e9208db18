// What acts on what within one step of a model, as derivatives see it. Private to verify/.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "compiler/program_index.h"
#include "etrace/facts.h"
#include "etrace/graph.h"

namespace etrace {

// Whether one value acts on another. Possibly: there is a way, but it leads through a branch that may not be
// taken, a loop, a function with derivatives of its own, an operator that reads some entries only, a
// product with a value of which entries are always zero, a choice by the sign of a value that has but one, or
// out of an array of which other entries depend on it, or because a norm takes out what is alike in all
// entries, so that values decide. Surely: but for special values.
enum class Degree : std::uint8_t { Never, Possibly, Surely };
inline void raise_to(Degree& d, Degree least) { d = std::max(d, least); }

// Ways from some values to one: those through no trainable product, and those through one.
struct InfluenceWays {
  Degree direct = Degree::Never, through_weight = Degree::Never;
  bool alike = false;    // the same on all entries along an axis
  bool partial = false;  // on some entries only
  Degree any() const { return std::max(direct, through_weight); }
};
using Reach = std::unordered_map<std::uint64_t, InfluenceWays>;  // by the id of a Var
InfluenceWays at(const Reach&, const Atom&);

class StepInfluence {
 public:
  explicit StepInfluence(const ETraceGraph&);

  struct State {
    StatePath path;
    Var entry;
    Atom exit;
    const HiddenGroup* group;         // null: carried, but no hidden state
    std::vector<Degree> next = {};    // per state: its new value depends on the old one of this
    std::vector<Degree> beside = {};  // of these, in other groups and not through a new state of its own
    Degree shown = Degree::Never;     // a result depends on its new value
    Degree live = Degree::Never;      // a result, of this step or a later one, depends on its old value
  };
  const std::vector<State>& states() const { return states_; }  // floating ones

  // Influence of one value on every other; values of `stops` do not hand it on.
  Reach from(const Var&, const std::vector<Var>& stops = {}) const;
  // Of an input, but not by the operands of the equations that are listed here.
  Reach from_input(const Var&,
                   const std::unordered_map<std::uint64_t, std::vector<std::size_t>>& except) const;
  // On the new value of every state.
  std::vector<Degree> on_states(const Reach&) const;
  // Does a value change from step to step? Not if it comes from parameters, constants and states that stay.
  bool varies(const Var& v) const { return varying_.contains(v.id); }

 private:
  Degree on_results(const Reach&) const;
  void follow_states();
  void find_facts(const ClosedJaxpr&);
  void find_varying(const Model&);
  void pass(const Eqn&, const std::vector<std::size_t>& skip, const std::vector<Var>& stops, Reach&) const;
  Degree passes(const Eqn&, std::size_t operand) const;
  bool is_alike_behind(const Eqn&, const Reach&) const;
  bool is_alike(const Atom&, std::int64_t size) const;

  const Jaxpr& program_;
  VarIds varying_;  // values that change from step to step
  std::optional<KnownFacts> facts_;
  std::vector<State> states_;
  std::vector<Atom> results_;  // floating ones
};

}  // namespace etrace
