// Bitwise logic on bool and integers, and shifts. A shift by the width of the type or more (a negative amount
// counts as such) moves every bit out: 0 remains, or the sign for the arithmetic shift to the right.
#include "ops/elementwise_common.h"
#include "ops/scalar_math.h"

namespace etrace {

using namespace elementwise;

namespace {

template <const Primitive& P, unsigned K, auto F>
PrimitiveSpec logic(PrimitiveSpec row) {
  row = binary<P, K, F>(row);
  row.jvp = jvp_zero;
  row.samples = flat_samples<K, Range{}, Range{}>;
  return row;
}

}  // namespace

const Primitive and_p{logic<and_p, kBits, [](auto a, auto b) { return static_cast<decltype(a)>(a & b); }>(
    {.name = "and", .doc = "bits set in a and b", .emit = code<"$0 & $1">})};
const Primitive or_p{logic<or_p, kBits, [](auto a, auto b) { return static_cast<decltype(a)>(a | b); }>(
    {.name = "or", .doc = "bits set in a or b", .emit = code<"$0 | $1">})};
const Primitive xor_p{logic<xor_p, kBits, [](auto a, auto b) { return static_cast<decltype(a)>(a ^ b); }>(
    {.name = "xor", .doc = "bits set in one of a and b", .emit = code<"$0 ^ $1">})};

const Primitive not_p{unary<not_p, kBits,
                            [](auto a) {
                              if constexpr (std::is_same_v<decltype(a), bool>)
                                return !a;
                              else
                                return static_cast<decltype(a)>(~a);
                            }>({
    .name = "not",
    .doc = "bits not set in a",
    .emit = [](const EmitRequest& r) -> Emission {
      return MapCode{r.x(0).dtype == Dtype::Bool ? "!$0" : "~$0"};
    },
    .jvp = jvp_zero,
    .samples = flat_samples<kBits, Range{}>,
})};

const Primitive shift_left_p{
    logic<shift_left_p, kInteger, [](auto a, auto n) { return scalar::shift_left(a, n); }>(
        {.name = "shift_left",
         .doc = "a·2^n without the bits that leave",
         .emit = code<"etp_shift_left_$t($0, $1)", 2>})};
const Primitive shift_right_logical_p{
    logic<shift_right_logical_p, kInteger, [](auto a, auto n) { return scalar::shift_right_logical(a, n); }>(
        {.name = "shift_right_logical",
         .doc = "bits of a moved down by n, zeros follow",
         .emit = code<"etp_shift_right_logical_$t($0, $1)", 2>})};
const Primitive shift_right_arithmetic_p{
    logic<shift_right_arithmetic_p, kInteger,
          [](auto a, auto n) { return scalar::shift_right_arithmetic(a, n); }>(
        {.name = "shift_right_arithmetic",
         .doc = "bits of a moved down by n, the sign follows",
         .emit = code<"etp_shift_right_arithmetic_$t($0, $1)", 2>})};

}  // namespace etrace
