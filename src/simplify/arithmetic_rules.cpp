// Rules for arithmetic: identities that hold to the last bit, for NaN, infinities and both zeros.
//   x + (−0), x − 0, x·1, x/1 are x;  x + 0 is not (−0 + 0 = 0), nor is 0·x zero (0·∞ = NaN).
// Sums of cotangents (add_any) drop any zero: an absent cotangent and a zero one mean the same.
#include <algorithm>
#include <cmath>

#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/class_label.h"
#include "simplify/rewrite.h"

namespace etrace {

namespace {

const Aval& type_of_result(const Eqn& eqn) { return eqn.out[0].aval; }

// An operand that the result equals, if it has the result's type: broadcasting is no identity.
std::optional<Atom> kept(const Eqn& eqn, std::size_t i) {
  return aval_of(eqn.in[i]) == type_of_result(eqn) ? std::optional(eqn.in[i]) : std::nullopt;
}

bool is_value(const Rewriter& rw, const Atom& a, double wanted, bool any_sign = false) {
  const auto value = rw.uniform(a);
  if (!value) return false;
  const double v = to_double(value->value);
  return v == wanted && (any_sign || std::signbit(v) == std::signbit(wanted));
}

std::optional<Atom> neutral_operand(Rewriter& rw, const Eqn& eqn) {
  const bool integers = !is_floating(type_of_result(eqn).dtype);
  for (std::size_t other = 0; other < 2; ++other) {
    const Atom& a = eqn.in[other];
    const bool neutral = eqn.prim == &add_p       ? is_value(rw, a, -0.0, integers)
                         : eqn.prim == &add_any_p ? is_value(rw, a, 0.0, true)
                                                  : is_value(rw, a, 1.0);
    if (neutral)
      if (auto x = kept(eqn, 1 - other)) return x;
  }
  return std::nullopt;
}

std::optional<Atom> neutral_second(Rewriter& rw, const Eqn& eqn) {
  if (eqn.prim == &sub_p ? is_value(rw, eqn.in[1], 0.0) : is_value(rw, eqn.in[1], 1.0)) return kept(eqn, 0);
  return std::nullopt;
}

// −(−x), not(not x)
std::optional<Atom> undone(Rewriter& rw, const Eqn& eqn) {
  const Eqn* inner = rw.definition(eqn.in[0], *eqn.prim);
  return inner != nullptr ? std::optional(inner->in[0]) : std::nullopt;
}

std::optional<Atom> first_power(Rewriter&, const Eqn& eqn) {
  return eqn.params.integer("y") == 1 ? std::optional(eqn.in[0]) : std::nullopt;
}

bool same_var(const Atom& a, const Atom& b) {
  return as_var(a) != nullptr && as_var(b) != nullptr && *as_var(a) == *as_var(b);
}

// max(x, x), and(x, x) …
std::optional<Atom> of_itself(Rewriter&, const Eqn& eqn) {
  return same_var(eqn.in[0], eqn.in[1]) ? std::optional(eqn.in[0]) : std::nullopt;
}

// true ∧ p, false ∨ p
std::optional<Atom> neutral_bit(Rewriter& rw, const Eqn& eqn) {
  if (type_of_result(eqn).dtype != Dtype::Bool) return std::nullopt;
  for (std::size_t other = 0; other < 2; ++other)
    if (is_value(rw, eqn.in[other], eqn.prim == &and_p ? 1.0 : 0.0))
      if (auto x = kept(eqn, 1 - other)) return x;
  return std::nullopt;
}

// Choices
// -----------------------------------------------------------------------------------------------------
std::optional<Atom> known_choice(Rewriter& rw, const Eqn& eqn) {
  const auto which = rw.uniform(eqn.in[0]);
  if (!which) return std::nullopt;
  const auto last = static_cast<std::int64_t>(eqn.in.size()) - 2;
  const auto i = static_cast<std::size_t>(std::clamp<std::int64_t>(to_int(which->value), 0, last));
  if (auto chosen = kept(eqn, i + 1)) return chosen;
  const Aval from = aval_of(eqn.in[i + 1]);
  const Shape& shape = type_of_result(eqn).shape;
  Dims axes;
  for (std::size_t k = 0; k < from.shape.rank(); ++k) axes.push_back(static_cast<std::int64_t>(k));
  return rw.write(broadcast_in_dim_p, {eqn.in[i + 1]}, {{"shape", shape}, {"broadcast_dimensions", axes}});
}

std::optional<Atom> choice_of_one(Rewriter&, const Eqn& eqn) {
  for (std::size_t i = 2; i < eqn.in.size(); ++i)
    if (!same_var(eqn.in[1], eqn.in[i])) return std::nullopt;
  return kept(eqn, 1);
}

// Conversions
// ------------------------------------------------------------------------------------------------- Every
// value of `from` is a value of `to`.
bool holds(Dtype to, Dtype from) {
  if (to == from || from == Dtype::Bool) return true;
  switch (to) {
    case Dtype::F64:
      return from != Dtype::I64;
    case Dtype::F32:
      return from == Dtype::F16 || from == Dtype::BF16;
    case Dtype::I64:
      return from == Dtype::I32 || from == Dtype::U32;
    default:
      return false;
  }
}

std::optional<Atom> convert_chain(Rewriter& rw, const Eqn& eqn) {
  if (auto x = kept(eqn, 0)) return x;
  const Eqn* inner = rw.definition(eqn.in[0], convert_element_type_p);
  if (inner == nullptr || !holds(aval_of(eqn.in[0]).dtype, aval_of(inner->in[0]).dtype)) return std::nullopt;
  if (aval_of(inner->in[0]) == type_of_result(eqn)) return inner->in[0];
  return rw.write(convert_element_type_p, {inner->in[0]}, eqn.params);
}

// Copies, and marks for differentiation once that is over.
std::optional<Atom> same_value(Rewriter&, const Eqn& eqn) { return eqn.in[0]; }

std::optional<Atom> spike_without_slope(Rewriter& rw, const Eqn& eqn) {
  if (as_var(eqn.in[1]) == nullptr || aval_of(eqn.in[0]) != type_of_result(eqn)) return std::nullopt;
  return rw.write(heaviside_surrogate_gradient_p,
                  {eqn.in[0], Literal{type_of_result(eqn).dtype, Scalar(0.0)}}, eqn.params);
}

// Uniform operands: computed once, on scalars.
std::optional<Atom> of_uniform_operands(Rewriter& rw, const Eqn& eqn) {
  Arrays in;
  for (const Atom& a : eqn.in) {
    const auto value = rw.uniform(a);
    if (!value) return std::nullopt;
    in.push_back(full({}, value->value, value->dtype));
  }
  if (in.empty() || type_of_result(eqn).shape.size() == 0 ||
      !Rewriter::accepts(eqn, avals_of(in), {type_of_result(eqn).dtype, {}}))
    return std::nullopt;
  const Tensor y = bind_primitive(*eqn.prim, in, eqn.params)[0].tensor();
  if (const auto value = uniform_value(y)) return rw.full(type_of_result(eqn), *value);
  return std::nullopt;
}

}  // namespace

void add_arithmetic_rules(RuleTable& t) {
  t.add({&add_p, &add_any_p, &mul_p}, neutral_operand);
  t.add({&sub_p, &div_p}, neutral_second);
  t.add({&neg_p, &not_p}, undone);
  t.add(integer_pow_p, first_power);
  t.add({&max_p, &min_p, &and_p, &or_p}, of_itself);
  t.add({&and_p, &or_p}, neutral_bit);
  t.add(select_n_p, known_choice);
  t.add(select_n_p, choice_of_one);
  t.add(convert_element_type_p, convert_chain);
  t.add(copy_p, same_value);
  t.add_elementwise(of_uniform_operands);
}

void add_final_rules(RuleTable& t) {
  t.add({&stop_gradient_p, &class_label_p}, same_value);
  t.add(heaviside_surrogate_gradient_p, spike_without_slope);
}

}  // namespace etrace
