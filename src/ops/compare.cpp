// Comparisons of two operands; the result is bool. A NaN is unequal to everything and neither less nor
// greater.
#include "ops/elementwise_common.h"
#include "ops/fact_rules.h"

namespace etrace {

using namespace elementwise;

namespace {
template <const Primitive& P, auto F>
PrimitiveSpec comparison(PrimitiveSpec row) {
  row.elementwise = true;
  row.abstract = to_bool<P, kAny, 2>;
  row.kernel = map_kernel<kAny, F, 2>;
  row.jvp = jvp_zero;
  row.batch = batch<P>;
  if (row.facts == nullptr) row.facts = fact_rules::comparison;
  row.samples = flat_samples<kAny, Range{-0.1, 0.1}, Range{-0.1, 0.1}>;
  return row;
}
}  // namespace

const Primitive eq_p{comparison<eq_p, [](auto a, auto b) { return a == b; }>(
    {.name = "eq", .doc = "a = b", .emit = code<"$0 == $1">})};
const Primitive ne_p{comparison<ne_p, [](auto a, auto b) { return a != b; }>(
    {.name = "ne", .doc = "a ≠ b", .emit = code<"$0 != $1">})};
const Primitive lt_p{comparison<lt_p, [](auto a, auto b) { return a < b; }>(
    {.name = "lt",
     .doc = "a < b",
     .emit = code<"$0 < $1">,
     .facts = fact_rules::decided<fact_rules::comparison>})};
const Primitive le_p{comparison<le_p, [](auto a, auto b) { return a <= b; }>(
    {.name = "le",
     .doc = "a ≤ b",
     .emit = code<"$0 <= $1">,
     .facts = fact_rules::decided<fact_rules::comparison>})};
const Primitive gt_p{comparison<gt_p, [](auto a, auto b) { return b < a; }>(
    {.name = "gt",
     .doc = "a > b",
     .emit = code<"$1 < $0">,
     .facts = fact_rules::decided<fact_rules::comparison>})};
const Primitive ge_p{comparison<ge_p, [](auto a, auto b) { return b <= a; }>(
    {.name = "ge",
     .doc = "a ≥ b",
     .emit = code<"$1 <= $0">,
     .facts = fact_rules::decided<fact_rules::comparison>})};

}  // namespace etrace
