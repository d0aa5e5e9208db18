// Rules for scan. A carry that never changes and an x that is the same at every step are constants; a y that
// is one of them, or an x, is known outside; an equation that reads constants only is computed once, before
// the loop; a loop of one step is no loop.
#include <unordered_set>

#include "control/loops.h"
#include "etrace/control.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"
#include "ops/partial_dot.h"
#include "simplify/loop_rules.h"

namespace etrace {

namespace {

// Growth that a value computed before the loop may bring: it lives as long as the loop runs.
constexpr std::size_t kHoistGrowth = 4;

Aval one_step(const Aval& stacked) { return {stacked.dtype, stacked.shape.without(0)}; }

class ScanEdit {
 public:
  ScanEdit(Rewriter& rw, const Eqn& eqn)
      : rw_(rw), eqn_(eqn), body_(*eqn.params.jaxpr("jaxpr")), length_(eqn.params.integer("length")) {
    const loops::Scan scan(eqn);
    const std::size_t num_consts = scan.num_consts, num_carry = scan.num_carry;
    const Jaxpr& j = body_.jaxpr;
    for (std::size_t i = 0; i < num_consts; ++i) consts_.add(j.invars[i], eqn.in[i]);
    for (std::size_t i = 0; i < num_carry; ++i)
      carries_.push_back({j.invars[num_consts + i], eqn.in[num_consts + i], i});
    for (std::size_t i = num_consts + num_carry; i < j.invars.size(); ++i) xs_.add(j.invars[i], eqn.in[i]);
    for (std::size_t i = num_carry; i < j.outs.size(); ++i) ys_.push_back(i);
    results_.resize(eqn.out.size());
  }

  std::optional<std::vector<Atom>> run() {
    if (length_ == 1) return inlined();
    const std::size_t constants = body_.consts.size();
    lift_constants(rw_, body_, consts_);
    bool changed = constants != 0;
    changed |= constant_carries();
    changed |= constant_xs();
    changed |= tidy(rw_, body_.jaxpr, consts_);
    changed |= drop_xs();
    changed |= hoist();
    changed |= known_ys();
    if (!changed) return std::nullopt;
    return rebuilt();
  }

 private:
  struct CarryEdit {
    Var inner;
    Atom init;
    std::size_t out;  // position among outputs and results
  };

  std::vector<Atom> inlined() {
    Renaming names;
    for (std::size_t i = 0; i < body_.consts.size(); ++i)
      names.set(body_.jaxpr.constvars[i], rw_.constant(body_.consts[i]));
    for (std::size_t i = 0; i < consts_.inner.size(); ++i) names.set(consts_.inner[i], consts_.outer[i]);
    for (const CarryEdit& c : carries_) names.set(c.inner, c.init);
    for (std::size_t i = 0; i < xs_.inner.size(); ++i)
      names.set(xs_.inner[i], reshaped(xs_.outer[i], xs_.inner[i].aval.shape));
    std::vector<Atom> out = write_body(rw_, body_.jaxpr, names);
    for (const std::size_t y : ys_) out[y] = reshaped(out[y], eqn_.out[y].aval.shape);
    return out;
  }

  Atom reshaped(const Atom& x, const Shape& shape) {
    return rw_.write(reshape_p, {x}, {{"new_sizes", shape}, {"dimensions", nullptr}});
  }

  bool is_invariant(const CarryEdit& c, const UniformInBody& uniform) const {
    const Atom& next = body_.jaxpr.outs[c.out];
    if (const Var* v = as_var(next); v != nullptr && *v == c.inner) return true;
    const auto start = rw_.uniform(c.init);
    const auto then = start ? uniform(next) : std::nullopt;
    return then && *start == *then;
  }

  bool constant_carries() {
    std::vector<CarryEdit> varying;
    const UniformInBody uniform(body_.jaxpr);
    for (const CarryEdit& c : carries_) {
      if (!is_invariant(c, uniform)) {
        varying.push_back(c);
        continue;
      }
      consts_.add(c.inner, c.init);
      results_[c.out] = c.init;
    }
    const bool changed = varying.size() != carries_.size();
    carries_ = std::move(varying);
    return changed;
  }

  // The entry of every step, if all are the same.
  std::optional<Atom> same_at_every_step(const Atom& xs) {
    const Aval step = one_step(aval_of(xs));
    if (const auto value = rw_.uniform(xs)) return rw_.full(step, *value);
    const Eqn* repeat = rw_.definition(xs, broadcast_in_dim_p);
    if (repeat == nullptr) return std::nullopt;
    Atom source = repeat->in[0];
    Dims axes = repeat->params.dims("broadcast_dimensions");
    if (!axes.empty() && axes[0] == 0) {
      const Shape from = aval_of(source).shape;
      if (from[0] != 1) return std::nullopt;
      source = reshaped(source, from.without(0));
      axes.erase(axes.begin());
    }
    for (std::int64_t& a : axes) --a;
    return rw_.write(broadcast_in_dim_p, {source}, {{"shape", step.shape}, {"broadcast_dimensions", axes}});
  }

  bool constant_xs() {
    Invariants varying;
    for (std::size_t i = 0; i < xs_.inner.size(); ++i) {
      if (const auto step = same_at_every_step(xs_.outer[i]))
        consts_.add(xs_.inner[i], *step);
      else
        varying.add(xs_.inner[i], xs_.outer[i]);
    }
    const bool changed = varying.inner.size() != xs_.inner.size();
    xs_ = std::move(varying);
    return changed;
  }

  // Unread and repeated ones.
  bool drop_xs() { return tidy(rw_, body_.jaxpr, xs_); }

  bool worth_hoisting(const Eqn& eqn) const {
    if (eqn.prim->spec.product || eqn.prim->spec.etp != nullptr) return true;
    std::size_t in = 0, out = 0;
    for (const Atom& a : eqn.in)
      if (const Var* v = as_var(a)) in += v->aval.bytes();
    for (const Var& v : eqn.out) out += v.aval.bytes();
    return out <= kHoistGrowth * in;
  }

  bool hoist() {
    Renaming names;
    std::unordered_set<std::uint64_t> known;
    const auto learn = [&](const Var& inner, const Atom& outer) {
      known.insert(inner.id);
      names.set(inner, outer);
    };
    for (std::size_t i = 0; i < consts_.inner.size(); ++i) learn(consts_.inner[i], consts_.outer[i]);
    std::vector<Eqn> left;
    for (Eqn& eqn : body_.jaxpr.eqns) {
      bool invariant = false;  // reads something, and nothing that varies
      for (const Atom& a : eqn.in)
        if (as_var(a) != nullptr && !(invariant = known.contains(as_var(a)->id))) break;
      if (!invariant || !worth_hoisting(eqn)) {
        left.push_back(std::move(eqn));
        continue;
      }
      eqn.in = names(eqn.in);
      const std::vector<Atom> out = rw_.write_copy(eqn);
      for (std::size_t i = 0; i < out.size(); ++i) {
        learn(eqn.out[i], out[i]);
        consts_.add(eqn.out[i], out[i]);
      }
    }
    const bool changed = left.size() != body_.jaxpr.eqns.size();
    body_.jaxpr.eqns = std::move(left);
    return changed;
  }

  // Ys that are constants, xs or uniform are known outside the loop; repeated ones are stacked once.
  bool known_ys() {
    const UniformInBody uniform(body_.jaxpr);
    std::unordered_map<std::uint64_t, Atom> consts, xs;
    for (std::size_t i = 0; i < consts_.inner.size(); ++i)
      consts.emplace(consts_.inner[i].id, consts_.outer[i]);
    for (std::size_t i = 0; i < xs_.inner.size(); ++i) xs.emplace(xs_.inner[i].id, xs_.outer[i]);
    std::unordered_map<std::uint64_t, std::size_t> first;
    std::vector<std::size_t> left;
    for (const std::size_t y : ys_) {
      const Atom& inner = body_.jaxpr.outs[y];
      const Aval& stacked = eqn_.out[y].aval;
      if (const auto value = uniform(inner)) {
        results_[y] = rw_.full(stacked, *value);
        continue;
      }
      const std::uint64_t id = std::get<Var>(inner).id;
      if (const auto x = xs.find(id); x != xs.end()) {
        results_[y] = x->second;
      } else if (const auto c = consts.find(id); c != consts.end()) {
        results_[y] = repeated(c->second, stacked.shape);
      } else if (const auto [it, fresh] = first.try_emplace(id, y); fresh) {
        left.push_back(y);
      } else {
        repeated_.emplace_back(y, it->second);
      }
    }
    const bool changed = left.size() != ys_.size();
    ys_ = std::move(left);
    return changed;
  }

  Atom repeated(const Atom& x, const Shape& stacked) {
    Dims axes;
    for (std::size_t k = 1; k < stacked.rank(); ++k) axes.push_back(static_cast<std::int64_t>(k));
    return rw_.write(broadcast_in_dim_p, {x}, {{"shape", stacked}, {"broadcast_dimensions", axes}});
  }

  std::vector<Atom> rebuilt() {
    Jaxpr& j = body_.jaxpr;
    std::vector<Atom> in, outs;
    j.invars.clear();
    const auto add_input = [&](const Var& inner, const Atom& outer) {
      j.invars.push_back(inner);
      in.push_back(outer);
    };
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < consts_.inner.size(); ++i) add_input(consts_.inner[i], consts_.outer[i]);
    for (const CarryEdit& c : carries_) {
      add_input(c.inner, c.init);
      kept.push_back(c.out);
    }
    for (std::size_t i = 0; i < xs_.inner.size(); ++i) add_input(xs_.inner[i], xs_.outer[i]);
    kept.insert(kept.end(), ys_.begin(), ys_.end());
    for (const std::size_t k : kept) outs.push_back(j.outs[k]);
    j.outs = std::move(outs);
    const Params params = eqn_.params.with("jaxpr", share(std::move(body_)))
                              .with("num_consts", consts_.inner.size())
                              .with("num_carry", carries_.size());
    const std::vector<Atom> out = kept.empty() ? std::vector<Atom>() : rw_.write_all(scan_p, in, params);
    for (std::size_t i = 0; i < kept.size(); ++i) results_[kept[i]] = out[i];
    for (const auto& [y, same] : repeated_) results_[y] = results_[same];
    std::vector<Atom> all;
    for (const std::optional<Atom>& r : results_) all.push_back(*r);
    return all;
  }

  Rewriter& rw_;
  const Eqn& eqn_;
  ClosedJaxpr body_;
  std::int64_t length_;
  Invariants consts_, xs_;
  std::vector<CarryEdit> carries_;
  std::vector<std::size_t> ys_;                                // positions of outputs and results
  std::vector<std::pair<std::size_t, std::size_t>> repeated_;  // a y and the one that it repeats
  std::vector<std::optional<Atom>> results_;                   // known outside
};

std::optional<std::vector<Atom>> simplify_scan(Rewriter& rw, const Eqn& eqn) {
  return ScanEdit(rw, eqn).run();
}

}  // namespace

void add_scan_rules(RuleTable& t) { t.add_many(scan_p, simplify_scan); }

}  // namespace etrace
