// One walk for every analysis that carries what is known of values forward through a program, into bodies and
// around loops until nothing changes.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "etrace/bodies.h"

namespace etrace {

// Rules of an analysis; DataflowRules has those that many leave as they are:
//   Value              what is known; default: nothing has reached it. Grows by join only, finitely often.
//   bool reached(v)    whether an equation is looked at for it
//   equations(jaxpr)   const Eqn*, in order: those that count
//   step(eqn, in)      what is known of the results
//   join(into, more)   both may have happened; whether `into` has changed
//   sliced(v), stacked(v)  of slices along the leading axis, and of what is made of them
//   literal(l), constant(t)
//   follows_choices()  whether conditions of loops and choices of branches matter; if so
//   chosen(eqn, v, out)    is told what is known of them
//   enter(eqn), leave(eqn, in, out)  around bodies
//   done()             nothing more is asked
template <class V>
struct DataflowRules {
  using Value = V;
  static std::vector<const Eqn*> equations(const Jaxpr& program) {
    std::vector<const Eqn*> out;
    for (const Eqn& eqn : program.eqns) out.push_back(&eqn);
    return out;
  }
  static V sliced(V v) { return v; }
  static V stacked(V v) { return v; }
  static V literal(const Literal&) { return {}; }
  static V constant(const Tensor&) { return {}; }
  static bool follows_choices() { return false; }
  static void chosen(const Eqn&, const V&, const std::vector<V>&) {}
  static void enter(const Eqn&) {}
  static void leave(const Eqn&, const std::vector<V>&, const std::vector<V>&) {}
  static bool done() { return false; }
};

template <class Rules>
class Dataflow {
 public:
  using Value = typename Rules::Value;
  explicit Dataflow(Rules& rules) : rules_(&rules) {}

  void set(const Var& v, Value value) { values_.insert_or_assign(v.id, std::move(value)); }
  Value at(const Atom& a) const {
    const Var* v = as_var(a);
    if (v == nullptr) return rules_->literal(std::get<Literal>(a));
    const auto it = values_.find(v->id);
    return it == values_.end() ? Value{} : it->second;
  }

  void run(const Jaxpr& program) {
    for (const Eqn* eqn : rules_->equations(program)) {
      if (rules_->done()) return;
      std::vector<Value> in;
      for (const Atom& a : eqn->in) in.push_back(at(a));
      if (std::none_of(in.begin(), in.end(), [&](const Value& v) { return rules_->reached(v); })) continue;
      const std::vector<BodyUse> uses = bodies_of(*eqn);
      std::vector<Value> out = uses.empty() ? rules_->step(*eqn, in) : around(*eqn, uses, in);
      for (std::size_t i = 0; i < out.size(); ++i) set(eqn->out[i], std::move(out[i]));
    }
  }
  void run(const ClosedJaxpr& program) {
    for (std::size_t i = 0; i < program.consts.size(); ++i)
      set(program.jaxpr.constvars[i], rules_->constant(program.consts[i]));
    run(program.jaxpr);
  }

 private:
  std::vector<Value> around(const Eqn& eqn, const std::vector<BodyUse>& uses, const std::vector<Value>& in) {
    rules_->enter(eqn);
    std::vector<Value> out(eqn.out.size());
    for (const BodyUse& use : uses)  // a loop may end before its first round
      for (const BodyUse::Input& i : use.in)
        if (i.again != BodyUse::kNone) rules_->join(out[i.again], in[i.operand]);
    for (bool changed = true; changed && !rules_->done();) {
      changed = false;
      for (const BodyUse& use : uses) changed |= through(eqn, use, in, out);
    }
    rules_->leave(eqn, in, out);
    return out;
  }

  bool through(const Eqn& eqn, const BodyUse& use, const std::vector<Value>& in, std::vector<Value>& out) {
    const bool choice = use.decides || use.body == nullptr;
    if (choice && !rules_->follows_choices()) return false;
    if (use.body == nullptr) {
      for (const BodyUse::Input& i : use.in) rules_->chosen(eqn, in[i.operand], out);
      return false;
    }
    Dataflow inner(*rules_);
    for (std::size_t k = 0; k < use.in.size(); ++k) {
      const BodyUse::Input& i = use.in[k];
      Value v = i.operand == BodyUse::kNone ? Value{} : in[i.operand];
      if (i.sliced) v = rules_->sliced(v);
      if (i.again != BodyUse::kNone) rules_->join(v, out[i.again]);
      inner.set(use.body->jaxpr.invars[k], std::move(v));
    }
    inner.run(*use.body);
    if (use.decides) rules_->chosen(eqn, inner.at(use.body->jaxpr.outs[0]), out);
    bool changed = false;
    for (std::size_t k = 0; k < use.out.size(); ++k) {
      if (use.out[k].result == BodyUse::kNone) continue;
      const Value v = inner.at(use.body->jaxpr.outs[k]);
      changed |= rules_->join(out[use.out[k].result], use.out[k].stacked ? rules_->stacked(v) : v);
    }
    return changed && !rules_->done();
  }

  Rules* rules_;
  std::unordered_map<std::uint64_t, Value> values_;
};

}  // namespace etrace
