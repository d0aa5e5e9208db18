#include "ops/all_finite.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

constexpr const char* kOp = "all_finite";

Avals abstract(const Params&, std::span<const Aval> in) {
  for (const Aval& a : in)
    if (!is_floating(a.dtype) && a.dtype != Dtype::Bool)
      refuse_type(kOp, "an operand is " + to_string(a) + "; whole numbers are always finite");
  return {{Dtype::Bool, {}}};
}

// Exponents of ones only, the mark of what is not finite, carry into the sign when one more is added. `Ones`
// are the bits of the exponent.
template <class Bits, Bits Ones>
bool finite_bits(const void* data, std::int64_t first, std::int64_t last) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (std::numeric_limits<Bits>::digits - 1));
  constexpr Bits kOne = Ones & (~Ones + 1);  // the least bit of the exponent
  const Bits* x = static_cast<const Bits*>(data);
  Bits seen = 0;
  for (std::int64_t i = first; i < last; ++i) seen |= static_cast<Bits>((x[i] & Ones) + kOne);
  return (seen & kSign) == 0;
}
bool all_true(const void* data, std::int64_t first, std::int64_t last) {
  const auto* x = static_cast<const std::uint8_t*>(data);
  return std::all_of(x + first, x + last, [](std::uint8_t b) { return b != 0; });
}

using Look = bool (*)(const void*, std::int64_t first, std::int64_t last);
Look look_at(Dtype dtype) {
  switch (dtype) {
    case Dtype::F16:
      return finite_bits<std::uint16_t, 0x7c00>;
    case Dtype::BF16:
      return finite_bits<std::uint16_t, 0x7f80>;
    case Dtype::F32:
      return finite_bits<std::uint32_t, 0x7f800000>;
    case Dtype::F64:
      return finite_bits<std::uint64_t, 0x7ff0000000000000>;
    default:
      return all_true;
  }
}

Kernel kernel(const KernelRequest& r) {
  struct Operand {
    Look look;
    std::int64_t size;
  };
  std::vector<Operand> operands;
  std::int64_t all = 0;
  for (const Aval& a : r.in) {
    operands.push_back({look_at(a.dtype), a.shape.size()});
    all += a.shape.size();
  }
  const std::int64_t parts = std::max(1, parts_of_work(all, r.context.threads));
  return {[=, context = r.context](const KernelArgs& k) {
    std::atomic<bool> finite{true};
    const auto look = [&](int part) {
      for (std::size_t i = 0; i < operands.size(); ++i)
        if (!operands[i].look(k.in[i], operands[i].size * part / parts,
                              operands[i].size * (part + 1) / parts))
          finite.store(false, std::memory_order_relaxed);
    };
    in_parts(context, parts, look);
    *static_cast<std::uint8_t*>(k.out[0]) = finite.load() ? 1 : 0;
  }};
}

Arrays lower(const Params&, ArraySpan x) {
  Array out = full({}, true, Dtype::Bool);
  for (const Array& a : x) {
    const bool stored = a.dtype() == Dtype::F16 || a.dtype() == Dtype::BF16;
    out =
        logical_and(out, all(a.dtype() == Dtype::Bool ? a : is_finite(stored ? convert(a, Dtype::F32) : a)));
  }
  return {out};
}

Samples samples(std::uint64_t seed) {
  Source r(seed);
  const Array nan = full({2, 3}, std::numeric_limits<double>::quiet_NaN(), Dtype::F64);
  const Array infinite = full({3}, -std::numeric_limits<double>::infinity(), Dtype::F32);
  const Array some = r.floats({r.integer(2, 40), 3}, Dtype::F32);
  return {{{}, {}, false},
          {{r.floats({4, 5})}, {}, false},
          {{some, r.floats({}), r.bools({1})}, {}, false},
          {{convert(some, Dtype::F16), convert(some, Dtype::BF16)}, {}, false},
          {{some, nan}, {}, false},
          {{infinite, some}, {}, false},
          {{convert(infinite, Dtype::BF16)}, {}, false},
          {{some, full({}, false, Dtype::Bool)}, {}, false},
          {{r.floats({0, 3})}, {}, false}};
}

}  // namespace

const Primitive all_finite_p{{
    .name = kOp,
    .doc = "y = whether all numbers are finite, and all truth values true",
    .params = {"early"},
    .abstract = abstract,
    .kernel = kernel,
    .lower = lower,
    .samples = samples,
}};

namespace {
// The answers so far must be true; of the others, those count that can be other than finite.
Array look(Arrays looked_at, ArraySpan arrays, bool early) {
  for (const Array& a : arrays)
    if (a.defined() && is_floating(a.dtype())) looked_at.push_back(a);
  return bind_primitive(all_finite_p, looked_at, {{"early", early}})[0];
}
}  // namespace

Array all_finite(ArraySpan arrays) { return look({}, arrays, false); }
Array all_finite_early(const Array& so_far, ArraySpan arrays) { return look({so_far}, arrays, true); }

}  // namespace etrace
