#include "control/step_products.h"

#include <algorithm>

#include "control/body.h"
#include "etrace/primitive.h"
#include "ops/dot_dims.h"

namespace etrace {

namespace {

bool contains(const std::vector<Var>& list, const Var& v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

std::size_t times_read(const Jaxpr& jaxpr, const Var& v) {
  std::size_t n = 0;
  const auto count = [&](const std::vector<Atom>& atoms) {
    for (const Atom& a : atoms) n += as_var(a) != nullptr && *as_var(a) == v ? 1 : 0;
  };
  for (const Eqn& eqn : jaxpr.eqns) count(eqn.in);
  count(jaxpr.outs);
  return n;
}

}  // namespace

StepProducts::StepProducts(ClosedJaxpr back, const Layout& layout) : layout_(layout), body_(std::move(back)) {
  Jaxpr& j = body_.jaxpr;
  // A step that is itself a loop, as a segment that is computed anew, has factors as long as that loop: to
  // hand them out would keep what segments are there to save.
  const bool loops = has_loops(j);
  const auto first_x = j.invars.begin() + static_cast<std::ptrdiff_t>(layout.consts);
  xs_.assign(first_x, first_x + static_cast<std::ptrdiff_t>(layout.xs));
  std::vector<Atom> outs;
  for (std::size_t i = 0; i < layout.shares; ++i) {
    products_.push_back(loops ? std::nullopt : product_of(body_, i));
    stays_.push_back(!products_.back());
    if (stays_.back()) outs.push_back(j.outs[i]);
  }
  outs.insert(outs.end(), j.outs.begin() + static_cast<std::ptrdiff_t>(layout.shares), j.outs.end());
  for (const auto& product : products_) {
    if (!product) continue;
    for (const Atom& a : product->in)
      if (const Var& v = *as_var(a); !contains(xs_, v) && !contains(factors_, v)) factors_.push_back(v);
  }
  outs.insert(outs.end(), factors_.begin(), factors_.end());
  j.outs = std::move(outs);
  body_ = eliminate_dead_code(body_);
}

// A product of two values that vary, read by nobody else.
std::optional<Eqn> StepProducts::product_of(const ClosedJaxpr& back, std::size_t share) const {
  const Jaxpr& j = back.jaxpr;
  const Var* out = as_var(j.outs[share]);
  if (out == nullptr || times_read(j, *out) != 1) return std::nullopt;
  const auto eqn = std::find_if(j.eqns.begin(), j.eqns.end(),
                                [&](const Eqn& e) { return e.out.size() == 1 && e.out[0] == *out; });
  if (eqn == j.eqns.end() || eqn->prim != &dot_general_p || !dot_dims(eqn->params).lhs_batch.empty())
    return std::nullopt;
  const auto first_const = j.invars.begin();
  for (const Atom& a : eqn->in) {
    const Var* v = as_var(a);
    if (v == nullptr || contains(j.constvars, *v) ||
        std::find(first_const, first_const + static_cast<std::ptrdiff_t>(layout_.consts), *v) !=
            first_const + static_cast<std::ptrdiff_t>(layout_.consts))
      return std::nullopt;
  }
  return *eqn;
}

Array StepProducts::sum(std::size_t share, ArraySpan xs, ArraySpan factors) const {
  const Eqn& product = *products_[share];
  const auto stacked = [&](const Atom& a) {
    const auto place = [&](const std::vector<Var>& list) {
      return static_cast<std::size_t>(std::find(list.begin(), list.end(), *as_var(a)) - list.begin());
    };
    return contains(xs_, *as_var(a)) ? xs[place(xs_)] : factors[place(factors_)];
  };
  // Over the steps first, then over what a step sums.
  const auto with_steps = [](Dims axes) {
    for (std::int64_t& a : axes) ++a;
    axes.insert(axes.begin(), 0);
    return axes;
  };
  const DotDims d = dot_dims(product.params);
  const DotDims all{with_steps(d.lhs_contract), with_steps(d.rhs_contract), {}, {}};
  return bind1(dot_general_p, {stacked(product.in[0]), stacked(product.in[1])},
               product.params.with("dimension_numbers", dot_attr(all)));
}

}  // namespace etrace
