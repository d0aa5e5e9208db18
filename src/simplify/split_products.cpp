#include "simplify/split_products.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "control/body.h"
#include "control/loops.h"
#include "control/splice.h"
#include "etrace/control.h"
#include "etrace/ops/shape.h"
#include "etrace/primitive.h"
#include "etrace/transform.h"
#include "ops/partial_dot.h"

namespace etrace {

namespace {

using Ids = std::unordered_set<std::uint64_t>;

// What is computed for all steps before a loop must stay near until its step comes, and must not grow with
// the length of a sequence: only windows are computed beforehand, that is loops of few steps with none
// inside.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostSteps = 64;

bool is_window(const Eqn& loop) {
  const std::int64_t steps = loop.params.integer("length");
  return steps > 1 && steps <= kMostSteps && !has_loops(loop.params.jaxpr("jaxpr")->jaxpr);
}

bool is(const Atom& a, const Var& v) { return as_var(a) != nullptr && *as_var(a) == v; }

std::int64_t axis_of(const Eqn& concat) { return concat.params.integer("dimension"); }

// The operand (0, 1) of a product that sums over the concatenated axis, if the equation is one.
std::optional<std::size_t> contracted_operand(const Eqn& eqn, const Eqn& concat) {
  if (eqn.prim != &dot_general_p || is(eqn.in[0], concat.out[0]) == is(eqn.in[1], concat.out[0]))
    return std::nullopt;
  const DotDims d = dot_dims(eqn.params);
  const std::size_t operand = is(eqn.in[0], concat.out[0]) ? 0 : 1;
  const Dims& axes = operand == 0 ? d.lhs_contract : d.rhs_contract;
  if (axes != Dims{axis_of(concat)} || eqn.out[0].aval.dtype != concat.out[0].aval.dtype) return std::nullopt;
  return operand;
}

// An operation as elementary equations, if they multiply the concatenation by something and do no more with
// it.
std::optional<ClosedJaxpr> as_product(const Eqn& eqn, const Eqn& concat) {
  if (eqn.prim->spec.etp == nullptr || eqn.prim->spec.lower == nullptr) return std::nullopt;
  std::optional<std::size_t> at;
  Avals in;
  for (std::size_t i = 0; i < eqn.in.size(); ++i) {
    if (is(eqn.in[i], concat.out[0])) {
      if (at) return std::nullopt;
      at = i;
    }
    in.push_back(aval_of(eqn.in[i]));
  }
  ClosedJaxpr body = make_jaxpr([&](ArraySpan x) { return eqn.prim->spec.lower(eqn.params, x); }, in);
  Eqn inner = concat;  // as the body sees it
  inner.out = {body.jaxpr.invars[*at]};
  std::size_t products = 0;
  for (const Eqn& e : body.jaxpr.eqns) {
    if (std::none_of(e.in.begin(), e.in.end(), [&](const Atom& a) { return is(a, inner.out[0]); })) continue;
    if (!contracted_operand(e, inner)) return std::nullopt;
    ++products;
  }
  for (const Atom& out : body.jaxpr.outs)
    if (is(out, inner.out[0])) return std::nullopt;
  return products == 1 ? std::optional(std::move(body)) : std::nullopt;
}

class Splitter {
 public:
  explicit Splitter(ClosedJaxpr& program) : program_(program) {}

  bool run() {
    bool changed = split_where_alone();
    for (std::size_t i = 0; i < eqns().size(); ++i)
      if (is_scan(eqns()[i]) && is_window(eqns()[i])) changed |= lift_out_of(i);
    return changed;
  }

 private:
  std::vector<Eqn>& eqns() { return program_.jaxpr.eqns; }

  // Concatenations that pass the test, and what reads them.
  struct Joined {
    Eqn concat;
    std::vector<std::size_t> readers;
  };
  template <class Test>
  std::vector<Joined> find(const Test& wanted) {
    std::vector<Joined> found;
    std::unordered_map<std::uint64_t, std::size_t> place;
    for (const Eqn& eqn : eqns()) {
      if (eqn.prim != &concatenate_p || !wanted(eqn)) continue;
      place.emplace(eqn.out[0].id, found.size());
      found.push_back({eqn, {}});
    }
    if (found.empty()) return found;
    for (std::size_t i = 0; i < eqns().size(); ++i)
      for (const Atom& a : eqns()[i].in)
        if (const Var* v = as_var(a))
          if (const auto it = place.find(v->id); it != place.end()) found[it->second].readers.push_back(i);
    return found;
  }

  using Bodies = std::vector<std::pair<std::size_t, ClosedJaxpr>>;  // by the number of an equation
  // Operators that multiply one of these are written as the products that they are.
  bool open_operators(const Bodies& bodies) {
    if (bodies.empty()) return false;
    std::unordered_map<std::size_t, const ClosedJaxpr*> body_of;
    for (const auto& [i, body] : bodies) body_of.emplace(i, &body);
    Renaming names;
    std::vector<Eqn> out;
    for (std::size_t i = 0; i < eqns().size(); ++i) {
      Eqn& eqn = eqns()[i];
      eqn.in = names(eqn.in);
      const auto it = body_of.find(i);
      if (it == body_of.end()) {
        out.push_back(std::move(eqn));
        continue;
      }
      const std::size_t first = out.size();
      const std::vector<Atom> results = splice(*it->second, eqn.in, program_, out);
      for (std::size_t k = first; k < out.size(); ++k) out[k].origin = eqn.origin;
      for (std::size_t k = 0; k < results.size(); ++k) names.set(eqn.out[k], results[k]);
    }
    eqns() = std::move(out);
    program_.jaxpr.outs = names(program_.jaxpr.outs);
    return true;
  }

  // Wherever all readers are such products
  // -------------------------------------------------------------------
  bool split_where_alone() {
    Ids handed_out;
    for (const Atom& a : program_.jaxpr.outs)
      if (const Var* v = as_var(a)) handed_out.insert(v->id);
    const auto inside = [&](const Eqn& concat) { return !handed_out.contains(concat.out[0].id); };
    Bodies bodies;
    Ids alone;
    for (const Joined& j : find(inside)) {
      Bodies own;
      const bool all = std::all_of(j.readers.begin(), j.readers.end(), [&](std::size_t i) {
        if (contracted_operand(eqns()[i], j.concat)) return true;
        auto body = as_product(eqns()[i], j.concat);
        if (body) own.emplace_back(i, std::move(*body));
        return body.has_value();
      });
      if (!all || j.readers.empty()) continue;
      alone.insert(j.concat.out[0].id);
      bodies.insert(bodies.end(), own.begin(), own.end());
    }
    if (alone.empty()) return false;
    open_operators(bodies);
    const auto chosen = [&](const Eqn& concat) { return alone.contains(concat.out[0].id); };
    std::unordered_map<std::size_t, Eqn> concat_of;
    for (const Joined& j : find(chosen))
      for (const std::size_t i : j.readers) concat_of.try_emplace(i, j.concat);
    return split(concat_of);
  }

  // The products, by number, with the concatenation that each reads.
  bool split(const std::unordered_map<std::size_t, Eqn>& concat_of) {
    if (concat_of.empty()) return false;
    std::vector<Eqn> out;
    for (std::size_t i = 0; i < eqns().size(); ++i) {
      const auto it = concat_of.find(i);
      if (it == concat_of.end())
        out.push_back(std::move(eqns()[i]));
      else
        chain(eqns()[i], it->second, out);
    }
    eqns() = std::move(out);
    return true;
  }

  static void chain(const Eqn& product, const Eqn& concat, std::vector<Eqn>& out) {
    const std::size_t operand = *contracted_operand(product, concat);
    const DotDims d = dot_dims(product.params);
    std::optional<Atom> sum;
    std::int64_t start = 0;
    for (std::size_t k = 0; k < concat.in.size(); ++k) {
      const std::int64_t width = aval_of(concat.in[k]).shape[static_cast<std::size_t>(axis_of(concat))];
      const bool last = k + 1 == concat.in.size();
      std::vector<Atom> in = product.in;
      in[operand] = concat.in[k];
      if (sum) in.push_back(*sum);
      const DotStretch stretch{operand == 0 ? 0 : start, operand == 0 ? start : 0, width};
      const Var y = last ? product.out[0] : fresh_var(product.out[0].aval);
      out.push_back(
          make_eqn(partial_dot_p, std::move(in), {y}, partial_dot_params(d, stretch), product.origin));
      sum = y;
      start += width;
    }
  }

  // Out of a loop -------------------------------------------------------------------------------------------
  // What the body's inputs stand for: the same at every step, or a step's entry of something stacked.
  struct Known {
    std::unordered_map<std::uint64_t, Atom> consts, xs;
    bool is_const(const Atom& a) const { return as_var(a) != nullptr && consts.contains(as_var(a)->id); }
    bool is_data(const Atom& a) const { return as_var(a) != nullptr && xs.contains(as_var(a)->id); }
  };

  bool lift_out_of(std::size_t at) {
    Eqn loop = eqns()[at];
    const loops::Scan scan(loop);
    ClosedJaxpr body = *scan.body;
    const std::size_t num_consts = scan.num_consts, first_x = scan.first_x();
    Known known;
    for (std::size_t i = 0; i < num_consts; ++i) known.consts.emplace(body.jaxpr.invars[i].id, loop.in[i]);
    for (std::size_t i = first_x; i < loop.in.size(); ++i)
      known.xs.emplace(body.jaxpr.invars[i].id, loop.in[i]);
    const auto length = static_cast<std::size_t>(loop.params.integer("length"));
    const auto small = [&](const Eqn& product) { return product.out[0].aval.bytes() * length <= kMostBytes; };

    bool changed = Splitter(body).split_data(known, small);
    std::vector<Eqn> before, left;
    for (Eqn& eqn : body.jaxpr.eqns) {
      if (!needs_no_state(eqn, known) || !small(eqn)) {
        left.push_back(std::move(eqn));
        continue;
      }
      before.push_back(for_all_steps(eqn, known, static_cast<std::int64_t>(length)));
      body.jaxpr.invars.push_back(eqn.out[0]);
      loop.in.emplace_back(before.back().out[0]);
      known.xs.emplace(eqn.out[0].id, before.back().out[0]);
      changed = true;
    }
    if (!changed) return false;
    body.jaxpr.eqns = std::move(left);
    loop.params = loop.params.with("jaxpr", share(std::move(body)));
    eqns()[at] = std::move(loop);
    eqns().insert(eqns().begin() + static_cast<std::ptrdiff_t>(at), before.begin(), before.end());
    return true;
  }

  // Products with concatenations that begin with a step's data, whoever else reads those.
  template <class Small>
  bool split_data(const Known& known, const Small& small) {
    const auto begins_with_data = [&](const Eqn& concat) {
      return known.is_data(concat.in[0]) && !std::all_of(concat.in.begin(), concat.in.end(),
                                                         [&](const Atom& a) { return known.is_data(a); });
    };
    Bodies bodies;
    for (const Joined& j : find(begins_with_data))
      for (const std::size_t i : j.readers)
        if (small(eqns()[i]))
          if (auto opened = as_product(eqns()[i], j.concat)) bodies.emplace_back(i, std::move(*opened));
    const bool opened = open_operators(bodies);
    std::unordered_map<std::size_t, Eqn> concat_of;
    for (const Joined& j : find(begins_with_data))
      for (const std::size_t i : j.readers) {
        const Eqn& product = eqns()[i];
        if (small(product) && contracted_operand(product, j.concat) == std::optional<std::size_t>(0) &&
            known.is_const(product.in[1]) && dot_dims(product.params).lhs_batch.empty())
          concat_of.try_emplace(i, j.concat);
      }
    return split(concat_of) || opened;
  }

  static bool needs_no_state(const Eqn& eqn, const Known& known) {
    if (eqn.prim != &partial_dot_p && eqn.prim != &dot_general_p) return false;
    return known.is_data(eqn.in[0]) && known.is_const(eqn.in[1]) && dot_dims(eqn.params).lhs_batch.empty() &&
           (eqn.in.size() == 2 || known.is_data(eqn.in[2]));
  }
  static Eqn for_all_steps(const Eqn& eqn, const Known& known, std::int64_t steps) {
    std::vector<Atom> in{known.xs.at(as_var(eqn.in[0])->id), known.consts.at(as_var(eqn.in[1])->id)};
    if (eqn.in.size() == 3) in.push_back(known.xs.at(as_var(eqn.in[2])->id));
    DotDims d = dot_dims(eqn.params);
    for (std::int64_t& axis : d.lhs_contract) ++axis;  // behind the axis of steps
    const Aval& one = eqn.out[0].aval;
    return make_eqn(*eqn.prim, std::move(in), {fresh_var({one.dtype, one.shape.with_front(steps)})},
                    eqn.params.with("dimension_numbers", dot_attr(d)), eqn.origin);
  }

  ClosedJaxpr& program_;
};

}  // namespace

bool split_products(ClosedJaxpr& program) { return Splitter(program).run(); }

}  // namespace etrace
