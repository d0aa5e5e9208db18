// Rules for products. A transposition before a matrix product is only another way to name its axes; and zero
// times what is known to be finite and not negative is zero.
#include <algorithm>
#include <cmath>

#include "etrace/facts.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"
#include "ops/dot_dims.h"
#include "simplify/rewrite.h"

namespace etrace {

namespace {

// Axes of the operand in place of those of its transposition.
Dims before_transpose(const Dims& axes, const Dims& permutation) {
  Dims out;
  for (const std::int64_t a : axes) out.push_back(permutation[static_cast<std::size_t>(a)]);
  return out;
}

// The axes of the result keep their order: those that are neither contracted nor batched do.
bool keeps_free_order(const Dims& permutation, const Dims& contract, const Dims& batch) {
  std::int64_t last = -1;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    if (std::find(contract.begin(), contract.end(), axis) != contract.end() ||
        std::find(batch.begin(), batch.end(), axis) != batch.end())
      continue;
    if (permutation[i] < last) return false;
    last = permutation[i];
  }
  return true;
}

// The sum runs over the contracted axes in the order of the first operand: that order must stay.
bool keeps_sum_order(const Dims& contract, const Dims& permutation) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const std::int64_t a : contract) pairs.emplace_back(a, permutation[static_cast<std::size_t>(a)]);
  std::sort(pairs.begin(), pairs.end());
  return std::is_sorted(pairs.begin(), pairs.end(),
                        [](const auto& a, const auto& b) { return a.second < b.second; });
}

std::optional<Atom> dot_of_transposes(Rewriter& rw, const Eqn& eqn) {
  DotDims d = dot_dims(eqn.params);
  std::vector<Atom> in = eqn.in;
  const auto absorb = [&](std::size_t i, Dims& contract, Dims& batch) {
    const Eqn* inner = rw.definition(in[i], transpose_p);
    if (inner == nullptr) return false;
    const Dims permutation = inner->params.dims("permutation");
    if (!keeps_free_order(permutation, contract, batch)) return false;
    if (i == 0 && !keeps_sum_order(contract, permutation)) return false;
    contract = before_transpose(contract, permutation);
    batch = before_transpose(batch, permutation);
    in[i] = inner->in[0];
    return true;
  };
  const bool first = absorb(0, d.lhs_contract, d.lhs_batch);
  const bool second = absorb(1, d.rhs_contract, d.rhs_batch);
  if (!first && !second) return std::nullopt;
  return rw.write(dot_general_p, in, eqn.params.with("dimension_numbers", dot_attr(d)));
}

// Axes as they are called once some are gone.
Dims after_removal(const Dims& axes, const Dims& gone) {
  Dims out;
  for (const std::int64_t a : axes)
    if (std::find(gone.begin(), gone.end(), a) == gone.end())
      out.push_back(a - std::count_if(gone.begin(), gone.end(), [a](std::int64_t g) { return g < a; }));
  return out;
}

// A sum over an axis of size 1 is none. Only where both operands are reshapes, which then become others or
// nothing.
std::optional<Atom> dot_over_units(Rewriter& rw, const Eqn& eqn) {
  const DotDims d = dot_dims(eqn.params);
  Dims lhs_gone, rhs_gone;
  for (std::size_t i = 0; i < d.lhs_contract.size(); ++i) {
    if (aval_of(eqn.in[0]).shape[static_cast<std::size_t>(d.lhs_contract[i])] != 1) continue;
    lhs_gone.push_back(d.lhs_contract[i]);
    rhs_gone.push_back(d.rhs_contract[i]);
  }
  if (lhs_gone.empty() || rw.definition(eqn.in[0], reshape_p) == nullptr ||
      rw.definition(eqn.in[1], reshape_p) == nullptr)
    return std::nullopt;
  const auto without = [&](const Atom& x, const Dims& gone) {
    const Shape from = aval_of(x).shape;
    Dims sizes;
    for (std::size_t i = 0; i < from.rank(); ++i)
      if (std::find(gone.begin(), gone.end(), static_cast<std::int64_t>(i)) == gone.end())
        sizes.push_back(from[i]);
    return rw.write(reshape_p, {x}, {{"new_sizes", sizes}, {"dimensions", nullptr}});
  };
  const Atom lhs = without(eqn.in[0], lhs_gone), rhs = without(eqn.in[1], rhs_gone);
  const DotDims left{after_removal(d.lhs_contract, lhs_gone), after_removal(d.rhs_contract, rhs_gone),
                     after_removal(d.lhs_batch, lhs_gone), after_removal(d.rhs_batch, rhs_gone)};
  return rw.write(dot_general_p, {lhs, rhs}, eqn.params.with("dimension_numbers", dot_attr(left)));
}

// What is known of a value; a few steps back are enough: movements are merged.
Facts known(const Rewriter& rw, const Atom& a, int steps = 4) {
  if (const auto value = rw.uniform(a)) return facts_of(*value);
  const Eqn* eqn = rw.definition(a);
  if (eqn == nullptr || steps == 0) return {};
  std::vector<Facts> operands;
  for (const Atom& x : eqn->in) operands.push_back(known(rw, x, steps - 1));
  return facts_of(*eqn, operands);
}
// Finite and not negative for every input: spikes, truth values, uniform arrays; and what is made of them by
// moving.
bool is_plain(const Rewriter& rw, const Atom& a) {
  const Facts f = known(rw, a);
  return f.sign == Sign::Unsigned && f.finite == Finite::Always;
}

bool is_zero(const Rewriter& rw, const Atom& a) {
  const auto value = rw.uniform(a);
  return value && to_double(value->value) == 0.0 && !std::signbit(to_double(value->value));
}

std::optional<Atom> product_with_zero(Rewriter& rw, const Eqn& eqn) {
  const Aval& out = eqn.out[0].aval;
  const bool integers = !is_floating(out.dtype) && eqn.prim->spec.elementwise;
  for (std::size_t i = 0; i < 2; ++i)
    if (is_zero(rw, eqn.in[i]) && (integers || is_plain(rw, eqn.in[1 - i])))
      return rw.full(out, {out.dtype, is_floating(out.dtype) ? Scalar(0.0) : Scalar(std::int64_t{0})});
  return std::nullopt;
}

}  // namespace

void add_product_rules(RuleTable& t) {
  t.add({&mul_p, &dot_general_p}, product_with_zero);
  t.add(dot_general_p, dot_of_transposes);
  t.add(dot_general_p, dot_over_units);
}

}  // namespace etrace
