// Dead-code elimination, common-subexpression elimination, constant folding.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

using VarSet = std::unordered_set<std::uint64_t>;

void mark(VarSet& set, const std::vector<Atom>& atoms) {
  for (const Atom& a : atoms)
    if (const Var* v = as_var(a)) set.insert(v->id);
}

// Drops constvars that nobody reads, together with their values.
void drop_unused_consts(ClosedJaxpr& closed, const VarSet& live) {
  std::vector<Var> vars;
  Tensors values;
  for (std::size_t i = 0; i < closed.jaxpr.constvars.size(); ++i) {
    if (!live.contains(closed.jaxpr.constvars[i].id)) continue;
    vars.push_back(closed.jaxpr.constvars[i]);
    values.push_back(closed.consts[i]);
  }
  closed.jaxpr.constvars = std::move(vars);
  closed.consts = std::move(values);
}

}  // namespace

ClosedJaxpr eliminate_dead_code(const ClosedJaxpr& closed) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, closed.jaxpr.outs}, closed.consts};
  VarSet live;
  mark(live, result.jaxpr.outs);
  std::vector<Eqn> kept;  // backwards
  for (std::size_t i = closed.jaxpr.eqns.size(); i-- > 0;) {
    const Eqn& eqn = closed.jaxpr.eqns[i];
    Mask used;
    for (const Var& v : eqn.out) used.push_back(live.contains(v.id));
    const auto num_used = static_cast<std::size_t>(std::count(used.begin(), used.end(), true));
    if (num_used == 0) continue;
    const bool prunable = eqn.prim->spec.prune != nullptr && num_used < used.size();
    kept.push_back(prunable ? eqn.prim->spec.prune(eqn, used) : eqn);
    mark(live, kept.back().in);
  }
  result.jaxpr.eqns.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  drop_unused_consts(result, live);
  return result;
}

ClosedJaxpr eliminate_dead_code(const ClosedJaxpr& closed, const Mask& used_out) {
  ClosedJaxpr smaller = closed;
  smaller.jaxpr.outs.clear();
  for (std::size_t i = 0; i < used_out.size(); ++i)
    if (used_out[i]) smaller.jaxpr.outs.push_back(closed.jaxpr.outs[i]);
  return eliminate_dead_code(smaller);
}

namespace {

class Substitution {
 public:
  void replace(const Var& from, const Atom& to) { map_.insert_or_assign(from.id, to); }
  Atom apply(const Atom& a) const {
    const Var* v = as_var(a);
    if (v == nullptr) return a;
    const auto it = map_.find(v->id);
    return it == map_.end() ? a : it->second;
  }
  void apply_all(std::vector<Atom>& atoms) const {
    for (Atom& a : atoms) a = apply(a);
  }

 private:
  std::unordered_map<std::uint64_t, Atom> map_;
};

bool same_atom(const Atom& a, const Atom& b) {
  const Var *va = as_var(a), *vb = as_var(b);
  if ((va != nullptr) != (vb != nullptr)) return false;
  return va != nullptr ? *va == *vb : std::get<Literal>(a) == std::get<Literal>(b);
}

bool same_computation(const Eqn& a, const Eqn& b) {
  if (a.prim != b.prim || a.in.size() != b.in.size()) return false;
  for (std::size_t i = 0; i < a.in.size(); ++i)
    if (!same_atom(a.in[i], b.in[i])) return false;
  return a.params == b.params;
}

std::size_t operand_hash(const Eqn& eqn) {
  std::size_t h = std::hash<const void*>()(eqn.prim);
  for (const Atom& a : eqn.in) {
    const Var* v = as_var(a);
    h = h * 1099511628211U +
        (v != nullptr ? v->id : std::hash<double>()(to_double(std::get<Literal>(a).value)));
  }
  return h;
}

}  // namespace

ClosedJaxpr eliminate_common_subexpressions(const ClosedJaxpr& closed) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, closed.jaxpr.outs}, closed.consts};
  Substitution same;
  std::unordered_map<std::size_t, std::vector<std::size_t>> seen;  // hash -> positions in result
  for (Eqn eqn : closed.jaxpr.eqns) {
    same.apply_all(eqn.in);
    std::vector<std::size_t>& candidates = seen[operand_hash(eqn)];
    const Eqn* twin = nullptr;
    for (const std::size_t i : candidates)
      if (same_computation(result.jaxpr.eqns[i], eqn)) twin = &result.jaxpr.eqns[i];
    if (twin != nullptr) {
      for (std::size_t i = 0; i < eqn.out.size(); ++i) same.replace(eqn.out[i], twin->out[i]);
      continue;
    }
    candidates.push_back(result.jaxpr.eqns.size());
    result.jaxpr.eqns.push_back(std::move(eqn));
  }
  same.apply_all(result.jaxpr.outs);
  return result;
}

namespace {

// The one value of all elements, if it is known and there is one.
std::optional<double> uniform_value(const Array& a) {
  if (const std::optional<Scalar> value = a.splat()) return to_double(*value);
  if (a.is_tracer() || a.size() == 0 || a.size() > 65536) return std::nullopt;
  const std::vector<double> values = a.tensor().to_doubles();
  for (const double v : values)
    if (!(v == values[0] && std::signbit(v) == std::signbit(values[0]))) return std::nullopt;
  return values[0];
}

// The operand that the result equals to the last bit: x + (−0), x − 0, x·1, x/1. Sums of cotangents drop any
// zero.
std::optional<std::size_t> same_as_operand(const Eqn& eqn, const std::vector<std::optional<double>>& value) {
  const auto is = [&](std::size_t i, double wanted, bool any_sign = false) {
    return value[i] && *value[i] == wanted && (any_sign || std::signbit(*value[i]) == std::signbit(wanted));
  };
  const bool integers = !is_floating(eqn.out[0].aval.dtype);
  const auto keeps_type = [&](std::size_t i) { return aval_of(eqn.in[i]) == eqn.out[0].aval; };
  for (std::size_t other = 0; other < eqn.in.size() && eqn.in.size() == 2; ++other) {
    const std::size_t kept = 1 - other;
    if (!keeps_type(kept)) continue;
    if ((eqn.prim == &add_p && is(other, -0.0, integers)) ||
        (eqn.prim == &add_any_p && is(other, 0.0, true)) || (eqn.prim == &mul_p && is(other, 1.0)))
      return kept;
    if (other == 1 && ((eqn.prim == &sub_p && is(1, 0.0)) || (eqn.prim == &div_p && is(1, 1.0)))) return kept;
  }
  return std::nullopt;
}

}  // namespace

ClosedJaxpr fold_constants(const ClosedJaxpr& closed, std::int64_t max_elements) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, closed.jaxpr.outs}, closed.consts};
  std::unordered_map<std::uint64_t, Array> known;
  for (std::size_t i = 0; i < closed.consts.size(); ++i)
    known.emplace(closed.jaxpr.constvars[i].id, closed.consts[i]);
  Substitution folded;
  for (Eqn eqn : closed.jaxpr.eqns) {
    folded.apply_all(eqn.in);
    Arrays in;
    std::vector<std::optional<double>> uniform;
    for (const Atom& a : eqn.in) {
      Array value;
      if (const auto* l = std::get_if<Literal>(&a))
        value = full({}, l->value, l->dtype);
      else if (const auto it = known.find(std::get<Var>(a).id); it != known.end())
        value = it->second;
      uniform.push_back(value.defined() ? uniform_value(value) : std::nullopt);
      if (value.defined()) in.push_back(value);
    }
    std::int64_t size = 0;
    for (const Var& v : eqn.out) size += v.aval.shape.size();
    if (in.size() != eqn.in.size() || size > max_elements) {
      if (const auto operand = eqn.out.empty() ? std::nullopt : same_as_operand(eqn, uniform)) {
        folded.replace(eqn.out[0], eqn.in[*operand]);
        continue;
      }
      // Too large to store, but still known to hold one value.
      if (in.size() == eqn.in.size() && eqn.prim == &broadcast_in_dim_p && in[0].splat())
        known.emplace(eqn.out[0].id, full(eqn.out[0].aval.shape, *in[0].splat(), eqn.out[0].aval.dtype));
      result.jaxpr.eqns.push_back(std::move(eqn));
      continue;
    }
    const Arrays out = bind_primitive(*eqn.prim, in, eqn.params);
    for (std::size_t k = 0; k < out.size(); ++k) {
      known.emplace(eqn.out[k].id, out[k]);
      if (out[k].shape().is_scalar()) {
        folded.replace(eqn.out[k], Literal{out[k].dtype(), out[k].tensor().at(0)});
      } else {
        result.jaxpr.constvars.push_back(eqn.out[k]);
        result.consts.push_back(out[k].tensor());
      }
    }
  }
  folded.apply_all(result.jaxpr.outs);
  return eliminate_dead_code(result);
}

}  // namespace etrace
