#include "learn/plan/finite_guard.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "core/flow.h"
#include "core/make_program.h"
#include "etrace/facts.h"
#include "etrace/ops/numpy.h"
#include "etrace/ops/trace_window.h"
#include "etrace/transform.h"

namespace etrace {

Arrays if_finite(const Array& go, ArraySpan next, ArraySpan old) {
  Arrays out;
  for (std::size_t i = 0; i < next.size(); ++i) out.push_back(select_n(go, Arrays{old[i], next[i]}));
  return out;
}

// Passes ----------------------------------------------------------------------------------------------------
namespace {

class Guards {
 public:
  explicit Guards(Jaxpr& j) : j_(j) {
    for (std::size_t i = 0; i < j_.eqns.size(); ++i) {
      for (const Var& v : j_.eqns[i].out) made_by_[v.id] = i;
      count_uses(j_.eqns[i].in);
    }
    count_uses(j_.outs);
  }

  void run() {
    std::vector<Eqn> kept;
    for (Eqn& eqn : j_.eqns) {
      for (Atom& a : eqn.in) a = renamed(a);
      if (!taken(eqn, kept)) kept.push_back(std::move(eqn));
    }
    for (Atom& a : j_.outs) a = renamed(a);
    j_.eqns = std::move(kept);
  }

 private:
  void count_uses(const std::vector<Atom>& atoms) {
    for (const Atom& a : atoms)
      if (const Var* v = as_var(a)) ++uses_[v->id];
  }
  Atom renamed(const Atom& a) const {
    const Var* v = as_var(a);
    const auto it = v == nullptr ? renamed_.end() : renamed_.find(v->id);
    return it == renamed_.end() ? a : Atom(it->second);
  }

  // select_n(go, old, new) with `new` from a pass that takes `old` as its trace, or as its gradient so far.
  bool taken(const Eqn& choice, std::vector<Eqn>& before) {
    if (choice.prim != &select_n_p || choice.in.size() != 3) return false;
    const Var *go = as_var(choice.in[0]), *old = as_var(choice.in[1]), *next = as_var(choice.in[2]);
    if (go == nullptr || old == nullptr || next == nullptr || go->aval != Aval{Dtype::Bool, {}}) return false;
    if (uses_[next->id] != 1) return false;
    for (Eqn& pass : before) {
      if (!is_trace_pass(pass) || !guards(pass, *old, *next) || !told(pass, *go)) continue;
      renamed_.emplace(choice.out[0].id, *next);
      return true;
    }
    return false;
  }
  static bool guards(const Eqn& pass, const Var& old, const Var& next) {
    const auto is = [](const Atom& a, const Var& v) { return as_var(a) != nullptr && *as_var(a) == v; };
    if (pass.out[0] == next) return is(pass.in[0], old);
    return pass.out.size() > 1 && pass.out[1] == next && pass.params.boolean_or("has_total", false) &&
           is(pass.in.back(), old);
  }
  // The pass knows `go`, or can be told: it is known before the pass.
  bool told(Eqn& pass, const Var& go) {
    const bool has_total = pass.params.boolean_or("has_total", false);
    const auto place = pass.in.end() - (has_total ? 1 : 0);  // before the gradient so far
    if (pass.params.boolean_or("has_go", false)) {
      const Var* known = as_var(*(place - 1));
      return known != nullptr && *known == go;
    }
    const auto made = made_by_.find(go.id);
    if (made != made_by_.end() && made->second >= made_by_.at(pass.out[0].id)) return false;
    pass.in.insert(place, Atom(go));
    pass.params = pass.params.with("has_go", true);
    return true;
  }

  Jaxpr& j_;
  std::unordered_map<std::uint64_t, std::size_t> made_by_, uses_;
  std::unordered_map<std::uint64_t, Var> renamed_;
};

}  // namespace

ClosedJaxpr guard_passes(ClosedJaxpr program) {
  Guards(program.jaxpr).run();
  return program;
}

// Looks -----------------------------------------------------------------------------------------------------
namespace {

// What is known of a result if this is known of every operand that is no number.
Facts behind(const Eqn& eqn, const Facts& operands) {
  std::vector<Facts> known;
  for (const Atom& a : eqn.in)
    known.push_back(as_var(a) != nullptr ? operands : facts_of(std::get<Literal>(a)));
  return facts_of(eqn, known);
}

bool is_early_look(const Eqn& eqn) { return is_look(eqn) && eqn.params.boolean_or("early", false); }

class Looks {
 public:
  Looks(Jaxpr& j, const std::vector<bool>& finite) : j_(j) {
    for (std::size_t i = 0; i < finite.size(); ++i)
      if (finite[i]) known_[j_.invars[i].id] = {};
    for (const Eqn& eqn : j_.eqns)
      for (const Var& v : eqn.out) made_by_[v.id] = &eqn;
  }

  void run() {
    std::vector<Eqn> out = j_.eqns;
    for (Eqn& eqn : out) {
      if (!is_early_look(eqn)) continue;
      std::vector<Atom> operands;
      Vars seen;
      for (const Atom& a : eqn.in) {
        if (aval_of(a).dtype == Dtype::Bool) operands.push_back(a);
        add_all(origins(a), seen);
      }
      operands.insert(operands.end(), seen.begin(), seen.end());
      eqn.in = std::move(operands);
    }
    j_.eqns = std::move(out);
  }

 private:
  using Vars = std::vector<Var>;

  static void add_all(const Vars& from, Vars& to) {
    for (const Var& v : from)
      if (std::find(to.begin(), to.end(), v) == to.end()) to.push_back(v);
  }
  static std::int64_t size(const Vars& list) {
    std::int64_t n = 0;
    for (const Var& v : list)
      if (!v.aval.shape.is_scalar()) n += v.aval.shape.size();
    return n;
  }

  // What to look at in place of a value.
  const Vars& origins(const Atom& a) {
    static const Vars none;
    const Var* v = as_var(a);
    if (v == nullptr || !is_floating(v->aval.dtype)) return none;
    if (const auto it = known_.find(v->id); it != known_.end()) return it->second;
    Vars found{*v};
    if (const auto it = made_by_.find(v->id); it != made_by_.end()) found = origins(*it->second, *v);
    return known_[v->id] = std::move(found);
  }

  Vars origins(const Eqn& eqn, const Var& v) {
    if (is_finite_always(eqn)) return {};
    const bool pass = is_trace_pass(eqn);
    if (!pass && !keeps_finite(eqn)) return {v};
    Vars parts;
    for (const Atom& a : eqn.in) add_all(origins(a), parts);
    const bool waits =
        pass || std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return waits_for_pass(a); });
    if (waits) after_pass_.insert(v.id);
    return waits || size(parts) <= v.aval.shape.size() ? parts : Vars{v};
  }
  bool waits_for_pass(const Atom& a) const {
    return as_var(a) != nullptr && after_pass_.contains(as_var(a)->id);
  }

  // Whatever the operands are.
  static bool is_finite_always(const Eqn& eqn) { return behind(eqn, {}).finite == Finite::Always; }
  // Sums and products of finite numbers are finite, unless they overflow; and elements that are moved. What
  // is not finite must not get lost on the way.
  static bool keeps_finite(const Eqn& eqn) {
    const Facts f = behind(eqn, {.finite = Finite::Always});
    return f.finite != Finite::Unknown && (f.shows == Shows::All || f.shows == Shows::Part);
  }

  Jaxpr& j_;
  std::unordered_map<std::uint64_t, const Eqn*> made_by_;
  std::unordered_map<std::uint64_t, Vars> known_;
  std::unordered_set<std::uint64_t> after_pass_;
};

// Looks that others make needless: no finite sum, product or quotient has an operand that is not finite (but
// for the divisor), and what is moved stays what it is. Products of matrices are none of these: kernels leave
// out zeros. So the answer is the same, and it needs no look at large values inside of a gradient.
class NeedlessLooks {
 public:
  explicit NeedlessLooks(Jaxpr& j) : j_(j) {
    for (std::size_t i = 0; i < j_.eqns.size(); ++i) {
      for (const Var& v : j_.eqns[i].out) made_by_[v.id] = i;
      count_uses(j_.eqns[i].in);
    }
    count_uses(j_.outs);
  }

  void run() {
    for (Eqn& eqn : j_.eqns)
      if (is_look(eqn)) eqn.in = needed(with_inner_looks(eqn.in));
  }

 private:
  void count_uses(const std::vector<Atom>& atoms) {
    for (const Atom& a : atoms)
      if (const Var* v = as_var(a)) ++uses_[v->id];
  }
  const Eqn* maker(const Atom& a) const {
    const Var* v = as_var(a);
    const auto it = v == nullptr ? made_by_.end() : made_by_.find(v->id);
    return it == made_by_.end() ? nullptr : &j_.eqns[it->second];
  }

  // A look whose answer goes into this one alone is a part of it.
  std::vector<Atom> with_inner_looks(const std::vector<Atom>& operands) const {
    std::vector<Atom> out;
    for (const Atom& a : operands) {
      const Eqn* look = maker(a);
      if (look == nullptr || !is_look(*look) || uses_.at(as_var(a)->id) != 1) {
        out.push_back(a);
        continue;
      }
      for (const Atom& inner : with_inner_looks(look->in)) out.push_back(inner);
    }
    return out;
  }
  std::vector<Atom> needed(const std::vector<Atom>& operands) const {
    std::unordered_set<std::uint64_t> implied;
    for (const Atom& a : operands) imply_operands(a, implied);
    std::vector<Atom> out;
    for (const Atom& a : operands) {
      const bool again = std::find(out.begin(), out.end(), a) != out.end();
      if (!again && (as_var(a) == nullptr || !implied.contains(as_var(a)->id))) out.push_back(a);
    }
    return out;
  }
  // What is finite if `a` is, itself excluded.
  void imply_operands(const Atom& a, std::unordered_set<std::uint64_t>& implied) const {
    const Eqn* eqn = maker(a);
    if (eqn == nullptr || eqn->out[0].aval.shape.size() == 0) return;
    const Shows shows = behind(*eqn, {}).shows;
    const std::size_t count = shows == Shows::All ? eqn->in.size() : shows == Shows::First ? 1 : 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Var* v = as_var(eqn->in[i]);
      if (v != nullptr && is_floating(v->aval.dtype) && implied.insert(v->id).second)
        imply_operands(eqn->in[i], implied);
    }
  }

  Jaxpr& j_;
  std::unordered_map<std::uint64_t, std::size_t> made_by_, uses_;
};

// What answers depend on first, then the rest, each in the order it had.
void answers_first(Jaxpr& j) {
  VarIds looks;
  for (const Eqn& eqn : j.eqns)
    if (is_early_look(eqn)) looks.insert(eqn.out[0].id);
  std::vector<bool> early(j.eqns.size(), false);
  for (const std::size_t i : backward(j, std::move(looks)).eqns) early[i] = true;
  std::vector<Eqn> out;
  for (const bool now : {true, false})
    for (std::size_t i = 0; i < early.size(); ++i)
      if (early[i] == now) out.push_back(std::move(j.eqns[i]));
  j.eqns = std::move(out);
}

}  // namespace

ClosedJaxpr look_early(ClosedJaxpr program, const std::vector<bool>& finite_arguments) {
  Looks(program.jaxpr, finite_arguments).run();
  NeedlessLooks(program.jaxpr).run();
  answers_first(program.jaxpr);
  return program;
}

// Exchanges -------------------------------------------------------------------------------------------------
namespace {

const Var* finite_result(const Program& p) {
  for (std::size_t i = 0; i < p.results.size(); ++i)
    if (is_answer(p.results[i], kFinitePort)) return as_var(p.jaxpr.jaxpr.outs[i]);
  return nullptr;
}

// What is replaced in place is read there by what comes after: otherwise it would be written twice, once for
// them and once to be kept. If the run is not finite they read what was there before, so they may make
// nothing but gradients, which are of no use then, and what is not kept then.
class ReadInPlace {
 public:
  ReadInPlace(Program& p, const Var& go) : p_(p), j_(p.jaxpr.jaxpr), go_(go) {
    for (std::size_t i = 0; i < j_.outs.size(); ++i)
      if (const Var* v = as_var(j_.outs[i]); v != nullptr && !may_be_old(i))
        shown_.merge(backward(j_, {v->id}).values);
  }

  void operator()(const Var& kept, const Var& next) {
    const auto reads = [&](const Eqn& eqn) {
      return std::find(eqn.in.begin(), eqn.in.end(), Atom(next)) != eqn.in.end();
    };
    const auto is_shown = [&](const Var& v) { return shown_.contains(v.id); };
    if (std::find(j_.outs.begin(), j_.outs.end(), Atom(next)) != j_.outs.end()) return;
    for (const Eqn& eqn : j_.eqns)
      if (reads(eqn) && eqn.out[0] != kept && std::any_of(eqn.out.begin(), eqn.out.end(), is_shown)) return;
    for (Eqn& eqn : j_.eqns)
      if (reads(eqn) && eqn.out[0] != kept)
        std::replace(eqn.in.begin(), eqn.in.end(), Atom(next), Atom(kept));
    makers_first();
  }

 private:
  bool may_be_old(std::size_t result) const {
    const Port& port = p_.results[result];
    if (port.role == PortRole::Gradient || is_answer(port, kUpdatedPort)) return true;
    const Eqn* choice = maker(j_.outs[result]);
    return choice != nullptr && choice->prim == &select_n_p && choice->in.size() == 3 &&
           is_false_without_go(choice->in[0]);
  }
  bool is_false_without_go(const Atom& a) const {
    if (a == Atom(go_)) return true;
    const Eqn* eqn = maker(a);
    return eqn != nullptr &&
           (eqn->prim == &and_p || eqn->prim == &broadcast_in_dim_p || eqn->prim == &reshape_p) &&
           std::any_of(eqn->in.begin(), eqn->in.end(),
                       [&](const Atom& in) { return is_false_without_go(in); });
  }
  const Eqn* maker(const Atom& a) const {
    for (const Eqn& eqn : j_.eqns)
      if (std::any_of(eqn.out.begin(), eqn.out.end(), [&](const Var& v) { return Atom(v) == a; }))
        return &eqn;
    return nullptr;
  }
  // Every equation behind those that make its operands, otherwise in the order they have.
  void makers_first() {
    std::unordered_map<std::uint64_t, std::size_t> made_by;
    for (std::size_t i = 0; i < j_.eqns.size(); ++i)
      for (const Var& v : j_.eqns[i].out) made_by[v.id] = i;
    std::vector<Eqn> out;
    std::vector<bool> done(j_.eqns.size(), false);
    const auto put = [&](const auto& self, std::size_t i) -> void {
      if (done[i]) return;
      done[i] = true;
      for (const Atom& a : j_.eqns[i].in)
        if (const Var* v = as_var(a); v != nullptr && made_by.contains(v->id)) self(self, made_by.at(v->id));
      out.push_back(std::move(j_.eqns[i]));
    };
    for (std::size_t i = 0; i < done.size(); ++i) put(put, i);
    j_.eqns = std::move(out);
  }

  Program& p_;
  Jaxpr& j_;
  Var go_;
  std::unordered_set<std::uint64_t> shown_;  // what results depend on that must be of this run
};

}  // namespace

Program exchange_buffers(Program p) {
  Jaxpr& j = p.jaxpr.jaxpr;
  const Var* go = finite_result(p);
  if (go == nullptr) return p;
  const Reached before_go = backward(j, {go->id});
  const auto is = [](const Atom& a, const Var& v) { return as_var(a) != nullptr && *as_var(a) == v; };
  // The new value in select_n(go, argument, new value), if that is all of the result. A selection may spread
  // a smaller value, which has no buffer to exchange.
  const auto next = [&](const Alias& a) -> const Var* {
    const Var* result = as_var(j.outs[a.result]);
    for (const Eqn& eqn : j.eqns)
      if (eqn.prim == &select_n_p && result != nullptr && eqn.out[0] == *result && eqn.in.size() == 3 &&
          is(eqn.in[0], *go) && is(eqn.in[1], j.invars[a.argument]))
        return aval_of(eqn.in[2]) == result->aval ? as_var(eqn.in[2]) : nullptr;
    return nullptr;
  };
  // What is no larger than all states, such as a factor of a trace, need not wait for the answer either.
  std::size_t states = 0;
  for (const Port& port : p.results)
    if (port.role == PortRole::State) states += port.aval.bytes();
  const auto is_small = [&](const Alias& a) {
    const Port& port = p.results[a.result];
    return (port.role == PortRole::State || port.role == PortRole::Trace) && port.aval.bytes() <= states;
  };
  std::vector<Alias> in_place;
  for (const Alias& a : p.aliases) {
    const Var* value = next(a);
    if (value == nullptr || (!before_go.holds(*value) && !is_small(a))) {
      in_place.push_back(a);
      continue;
    }
    j.outs[a.result] = Atom(*value);
    p.exchanges.push_back(a);
  }
  ReadInPlace read_in_place(p, *go);
  for (const Alias& a : in_place)
    if (const Var* value = next(a)) read_in_place(Var(*as_var(j.outs[a.result])), Var(*value));
  p.aliases = std::move(in_place);
  p.jaxpr = eliminate_dead_code(p.jaxpr);
  return p;
}

Program keep_buffers(Program p) {
  if (p.exchanges.empty()) return p;
  std::size_t finite = 0;
  while (p.results[finite].role != PortRole::Finite) ++finite;
  p.jaxpr = make_jaxpr(
      [&](ArraySpan in) {
        Arrays out = eval_jaxpr(p.jaxpr, in);
        for (const Alias& a : p.exchanges)
          out[a.result] = select_n(out[finite], Arrays{in[a.argument], out[a.result]});
        return out;
      },
      p.jaxpr.in_avals());
  p.aliases.insert(p.aliases.end(), p.exchanges.begin(), p.exchanges.end());
  std::sort(p.aliases.begin(), p.aliases.end(),
            [](const Alias& a, const Alias& b) { return a.result < b.result; });
  p.exchanges.clear();
  return p;
}

}  // namespace etrace
