// Every row's samples by emitted code and by the interpreter. Samples of many rows share a program: what is
// tested is also that they do not disturb each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "etrace/array.h"
#include "etrace/primitive.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

struct Labelled {
  std::string label;
  const Primitive* prim;
  PrimitiveSpec::Sample sample;
};

std::vector<Labelled> all_samples(std::uint64_t seed) {
  std::vector<Labelled> out;
  for (const Primitive* p : primitives()) {
    // Rows of other tests, and what exists inside reverse mode only.
    if (p->spec.samples == nullptr || p->name().starts_with("test_")) continue;
    if (p->spec.kernel == nullptr && p->spec.lower == nullptr) continue;
    std::size_t k = 0;
    for (const PrimitiveSpec::Sample& s : p->spec.samples(seed))
      out.push_back({std::string(p->name()) + " sample " + std::to_string(k++), p, s});
  }
  return out;
}

// All of them side by side.
void compare(std::span<const Labelled> samples) {
  Avals in;
  Tensors args;
  for (const Labelled& s : samples)
    for (const Array& a : s.sample.operands) {
      in.push_back(a.aval());
      args.push_back(a.tensor());
    }
  std::vector<std::string> labels;
  const ClosedJaxpr closed = make_jaxpr(
      [&](ArraySpan x) {
        Arrays out;
        std::size_t at = 0;
        for (const Labelled& s : samples) {
          const std::size_t n = s.sample.operands.size();
          for (const Array& y : bind_primitive(*s.prim, x.subspan(at, n), s.sample.params)) {
            out.push_back(y);
            labels.push_back(s.label);
          }
          at += n;
        }
        return out;
      },
      in);
  const Program p = as_program(closed);
  const Tensors found = run_native(p, args), expected = run_interpreter(p, args);
  ASSERT_EQ(found.size(), labels.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(same_bits(found[i], expected[i]))
        << labels[i] << ", result " << i << ": " << to_string(found[i].aval()) << " is "
        << ulps_apart(found[i], expected[i]) << " ulp away";
}

TEST(NativePrimitives, EverySampleGivesTheSameBits) {
  const std::vector<Labelled> all = all_samples(3);
  constexpr std::size_t kTogether = 300;
  for (std::size_t i = 0; i < all.size(); i += kTogether)
    compare(std::span(all).subspan(i, std::min(kTogether, all.size() - i)));
}

// Where arithmetic is hard: zeros of both signs, the smallest and largest numbers, infinities, no number,
// halves, shifts by more than the width, the quotient that overflows.
std::vector<double> hard_numbers(Dtype dtype) {
  if (dtype == Dtype::Bool) return {0, 1};
  if (dtype == Dtype::U32) return {0, 1, 2, 31, 32, 33, 0x7fffffff, 0x80000000, 0xffffffff};
  if (dtype == Dtype::I32) return {0, 1, -1, 2, -2, 31, 32, 33, -33, 2147483647, -2147483648.0};
  if (dtype == Dtype::I64)
    return {0, 1, -1, 2, -2, 63, 64, 65, 1e15, -9007199254740992.0, -9223372036854775808.0};
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> out{0.0,           -0.0,
                          0.5,           -0.5,
                          1.5,           2.5,
                          -2.5,          1.0,
                          -1.0,          3.7,
                          -12.25,        88.5,
                          -104.0,        710.0,
                          1e-300,        2147483648.0,
                          -2147483649.0, 4294967296.0,
                          1e19,          kInf,
                          -kInf,         std::numeric_limits<double>::quiet_NaN()};
  const bool narrow = dtype == Dtype::F32;
  const double least = narrow ? std::numeric_limits<float>::denorm_min()
                              : std::numeric_limits<double>::denorm_min(),
               normal = narrow ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min(),
               most = narrow ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  for (const double v : {least, normal, most}) {
    out.push_back(v);
    out.push_back(-v);
  }
  return out;
}

// Every pair (or triple) of them, operand by operand: the numbers repeat with different periods.
Array hard_operand(Dtype dtype, std::size_t operand, std::int64_t size) {
  const std::vector<double> numbers = hard_numbers(dtype);
  std::vector<double> values;
  std::size_t period = 1;
  for (std::size_t k = 0; k < operand; ++k) period *= numbers.size();
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i)
    values.push_back(numbers[i / period % numbers.size()]);
  return array(values, {size}, dtype);
}

TEST(NativePrimitives, HardNumbersGiveTheSameBits) {
  std::vector<Labelled> all;
  for (const Primitive* p : primitives()) {
    if (!p->spec.elementwise || p->spec.samples == nullptr || p->name().starts_with("test_")) continue;
    if (p->spec.kernel == nullptr || p->spec.emit == nullptr) continue;
    std::vector<std::string> seen;
    for (const PrimitiveSpec::Sample& s : p->spec.samples(3)) {
      PrimitiveSpec::Sample hard = s;
      std::string types;
      for (const auto& [key, value] : s.params.items())
        types += " " + std::string(key) + "=" + to_string(value);
      for (const Array& a : s.operands) types += " " + std::string(short_name(a.dtype()));
      const bool halves = std::any_of(s.operands.begin(), s.operands.end(), [](const Array& a) {
        return a.dtype() == Dtype::F16 || a.dtype() == Dtype::BF16;  // storage types: their samples suffice
      });
      if (halves || std::find(seen.begin(), seen.end(), types) != seen.end()) continue;
      seen.push_back(types);
      const std::int64_t size = s.operands.size() == 1 ? 32 : 800;
      for (std::size_t i = 0; i < s.operands.size(); ++i)
        hard.operands[i] = hard_operand(s.operands[i].dtype(), i, size);
      all.push_back({std::string(p->name()) + types, p, std::move(hard)});
    }
  }
  EXPECT_GT(all.size(), 150U);
  constexpr std::size_t kTogether = 150;
  for (std::size_t i = 0; i < all.size(); i += kTogether)
    compare(std::span(all).subspan(i, std::min(kTogether, all.size() - i)));
}

}  // namespace
}  // namespace etrace::testing
