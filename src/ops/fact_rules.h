// What rows say of their results (etrace/facts.h), where several say the same. Private to ops/.
#pragma once

#include "etrace/facts.h"

namespace etrace::fact_rules {

// f(0) = 0, of the operand's sign; bounded where the operand is, or not.
inline Facts odd(const FactRequest& q) {
  Facts f = q.moved(Shows::None);
  f.whole = false;
  return f;
}
inline Facts odd_unbounded(const FactRequest& q) {
  Facts f = odd(q);
  f.finite = Finite::Unknown;
  return f;
}
// Never zero.
inline Facts positive(const FactRequest&) { return {.sign = Sign::Unsigned}; }
inline Facts positive_bounded(const FactRequest& q) {
  return {.sign = Sign::Unsigned, .finite = q.x(0).finite};
}
inline Facts not_zero(const FactRequest&) { return {}; }
inline Facts not_zero_bounded(const FactRequest& q) { return {.finite = q.x(0).finite}; }
// A whole number beside the operand, on the same side of zero.
inline Facts rounded(const FactRequest& q) {
  Facts f = q.moved(Shows::All);
  f.whole = f.finite != Finite::Unknown;
  return f;
}
// a + b, a - b
template <bool Minus>
Facts sum(const FactRequest& q) {
  Facts both = q.x(0);
  both &= q.x(1);
  Facts f = q.combined(Minus ? Sign::Any : both.sign);
  f.zeros = q.all_zeros();
  return f;
}
// max, min: one operand settles the sign.
template <Sign S>
Facts extreme(const FactRequest& q) {
  const auto settles = [](const Facts& f) {
    return S == Sign::NotPositive ? f.sign == Sign::NotPositive : f.is_not_negative();
  };
  Facts f = q.moved(Shows::None);
  if (settles(q.x(0)) || settles(q.x(1))) f.sign = S;
  f.zeros = q.all_zeros();
  return f;
}
// A value that has one sign, compared with zero. Whole numbers, spikes say, are zero often.
inline bool is_decided(const FactRequest& q) {
  const auto is_zero = [](const Facts& f) {
    return f.zeros && f.alike && f.finite == Finite::Always && f.whole;
  };
  const auto fits = [&](std::size_t side) {
    return is_zero(q.x(1 - side)) && q.in[1 - side].shape.is_scalar() && q.x(side).sign != Sign::Any &&
           !q.x(side).whole;
  };
  return fits(0) || fits(1);
}
template <Facts (*F)(const FactRequest&)>
Facts decided(const FactRequest& q) {
  Facts f = F(q);
  f.decided = is_decided(q);
  return f;
}
inline Facts comparison(const FactRequest& q) {
  Facts f;
  f.zeros = q.any_zeros();
  return f;
}

}  // namespace etrace::fact_rules
