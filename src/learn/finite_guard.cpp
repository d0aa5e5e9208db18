#include "learn/finite_guard.h"

#include <algorithm>
#include <unordered_map>

#include "etrace/ops/numpy.h"
#include "etrace/ops/trace_window.h"

namespace etrace {

Array all_finite(ArraySpan arrays) {
  Array all;
  for (const Array& a : arrays) {
    if (!a.defined() || !is_floating(a.dtype()) || a.size() == 0) continue;
    // 0·v is 0 for every v, unless it is not finite.
    const Array one = equal_to(sum(a * full({}, 0.0, a.dtype())), full({}, 0.0, a.dtype()));
    all = all.defined() ? logical_and(all, one) : one;
  }
  return all.defined() ? all : full({}, true, Dtype::Bool);
}

Arrays if_finite(const Array& go, ArraySpan next, ArraySpan old) {
  Arrays out;
  for (std::size_t i = 0; i < next.size(); ++i) out.push_back(select_n(go, Arrays{old[i], next[i]}));
  return out;
}

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
      if (pass.prim != &trace_window_p || !guards(pass, *old, *next) || !told(pass, *go)) continue;
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

namespace {

constexpr std::int64_t kFewSteps = 8;  // of a pass over a trace

bool is_scalar(const Atom& a) { return aval_of(a).shape.is_scalar(); }
bool is_zero(const Atom& a) {
  const auto* l = std::get_if<Literal>(&a);
  return l != nullptr && to_double(l->value) == 0.0;
}

// Σ 0·x of all elements of x, as all_finite() records it.
class Looks {
 public:
  explicit Looks(Jaxpr& j) : j_(j) {
    for (std::size_t i = 0; i < j_.eqns.size(); ++i)
      for (const Var& v : j_.eqns[i].out) made_by_[v.id] = i;
  }

  void run() {
    std::vector<Eqn> out;
    for (const Eqn& eqn : j_.eqns) {
      const Atom* looked_at = look(eqn);
      std::vector<Atom> parts;
      if (looked_at != nullptr) collect(*looked_at, parts);
      const bool same = looked_at != nullptr && parts.size() == 1 && parts[0] == *looked_at;
      if (looked_at == nullptr || same) {
        out.push_back(eqn);
        continue;
      }
      replace(eqn, parts, out);
    }
    j_.eqns = std::move(out);
  }

 private:
  const Eqn* definition(const Atom& a) const {
    const Var* v = as_var(a);
    const auto it = v == nullptr ? made_by_.end() : made_by_.find(v->id);
    return it == made_by_.end() ? nullptr : &j_.eqns[it->second];
  }

  // The array that a sum of zeros looks at; null: the equation is something else.
  const Atom* look(const Eqn& eqn) const {
    if (eqn.prim != &reduce_sum_p || !is_scalar(eqn.out[0])) return nullptr;
    const Eqn* zeros = definition(eqn.in[0]);
    if (zeros == nullptr || zeros->prim != &mul_p) return nullptr;
    if (is_zero(zeros->in[1])) return &zeros->in[0];
    return is_zero(zeros->in[0]) ? &zeros->in[1] : nullptr;
  }

  void collect(const Atom& a, std::vector<Atom>& parts) const {
    if (as_var(a) == nullptr || !is_floating(aval_of(a).dtype)) return;
    const Eqn* eqn = definition(a);
    if (eqn != nullptr) {
      const Primitive* p = eqn->prim;
      if (p == &dot_general_p || p == &add_any_p || p == &add_p || p == &neg_p || p == &reshape_p ||
          p == &transpose_p || p == &squeeze_p || p == &broadcast_in_dim_p) {
        for (const Atom& in : eqn->in) collect(in, parts);
        return;
      }
      if ((p == &div_p || p == &mul_p) && is_scalar(eqn->in[1])) return collect(eqn->in[0], parts);
      const bool gradient = p == &trace_window_p && eqn->out.size() > 1 && eqn->out[1] == *as_var(a);
      if (gradient && aval_of(eqn->in[2]).shape[0] < kFewSteps) {
        if (eqn->params.boolean_or("has_total", false)) collect(eqn->in.back(), parts);
        return;
      }
    }
    if (std::find(parts.begin(), parts.end(), a) == parts.end()) parts.push_back(a);
  }

  // One sum per part, all of them added: no number stays no number.
  void replace(const Eqn& eqn, const std::vector<Atom>& parts, std::vector<Eqn>& out) const {
    const Aval result = eqn.out[0].aval;
    const Atom zero = Literal{result.dtype, 0.0};
    Atom total = zero;
    for (const Atom& part : parts) {
      const Aval type = aval_of(part);
      const Atom zero_of_part = Literal{type.dtype, 0.0};
      const Var zeros = fresh_var(type), sum = fresh_var({type.dtype, {}}), next = fresh_var(result);
      out.push_back(make_eqn(mul_p, {part, zero_of_part}, {zeros}, {}, eqn.origin));
      Dims axes;
      for (std::size_t i = 0; i < type.shape.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
      out.push_back(make_eqn(reduce_sum_p, {zeros}, {sum}, {{"axes", axes}}, eqn.origin));
      Atom one = sum;
      if (type.dtype != result.dtype) {
        const Var converted = fresh_var(result);
        out.push_back(
            make_eqn(convert_element_type_p, {sum}, {converted}, {{"new_dtype", result.dtype}}, eqn.origin));
        one = converted;
      }
      out.push_back(make_eqn(add_p, {total, one}, {next}, {}, eqn.origin));
      total = next;
    }
    out.push_back(make_eqn(add_p, {total, zero}, {eqn.out[0]}, {}, eqn.origin));
  }

  Jaxpr& j_;
  std::unordered_map<std::uint64_t, std::size_t> made_by_;
};

}  // namespace

ClosedJaxpr look_at_factors(ClosedJaxpr program) {
  Looks(program.jaxpr).run();
  return program;
}

}  // namespace etrace
