#include "support/programs.h"

#include <cmath>
#include <limits>

namespace etrace::testing {

namespace {

template <class T>
bool same_element(const std::byte* a, const std::byte* b) {
  T x, y;
  std::memcpy(&x, a, sizeof(T));
  std::memcpy(&y, b, sizeof(T));
  return (x != x && y != y) || std::memcmp(a, b, sizeof(T)) == 0;
}

bool same_element(Dtype dtype, const std::byte* a, const std::byte* b) {
  if (dtype == Dtype::F32) return same_element<float>(a, b);
  if (dtype == Dtype::F64) return same_element<double>(a, b);
  return std::memcmp(a, b, size_of(dtype)) == 0;
}

}  // namespace

Tensor hostile_tensor(Random& random, const Aval& aval) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array kSpecial{
      0.0, -0.0, std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 1.0, -1.0, 1e-40, 3e38};
  Tensor t = random.tensor(aval, -3.0, 3.0);
  if (aval.dtype != Dtype::F32 && aval.dtype != Dtype::F64) return t;
  Tensor out = Tensor::copy_of(aval, t.bytes());
  for (std::int64_t i = 0; i < aval.shape.size(); ++i) {
    const auto k = static_cast<std::size_t>(random.uniform(0.0, 3.0 * static_cast<double>(kSpecial.size())));
    if (k >= kSpecial.size()) continue;
    std::byte* at = out.writable() + static_cast<std::size_t>(i) * size_of(aval.dtype);
    const auto single = static_cast<float>(kSpecial[k]);
    if (aval.dtype == Dtype::F32)
      std::memcpy(at, &single, sizeof single);
    else
      std::memcpy(at, &kSpecial[k], sizeof(double));
  }
  return out;
}

Tensors hostile_inputs(const ClosedJaxpr& program, std::uint64_t seed) {
  Random random(seed);
  Tensors out;
  for (const Aval& aval : program.in_avals()) out.push_back(hostile_tensor(random, aval));
  return out;
}

std::string bit_difference(const Tensors& found, const Tensors& expected) {
  if (found.size() != expected.size()) return "another number of results";
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (found[k].aval() != expected[k].aval())
      return "result " + std::to_string(k) + " is " + to_string(found[k].aval()) + ", expected " +
             to_string(expected[k].aval());
    const std::size_t one = size_of(found[k].dtype());
    for (std::int64_t i = 0; i < found[k].size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * one;
      if (!same_element(found[k].dtype(), found[k].bytes() + at, expected[k].bytes() + at))
        return "result " + std::to_string(k) + ", element " + std::to_string(i) + ": " +
               std::to_string(to_double(found[k].at(i))) + ", expected " +
               std::to_string(to_double(expected[k].at(i)));
    }
  }
  return {};
}

void expect_same_bits(const ClosedJaxpr& found, const ClosedJaxpr& expected, std::uint64_t seed) {
  ASSERT_NO_THROW(check(expected));
  ASSERT_NO_THROW(check(found)) << to_string(found);
  ASSERT_EQ(found.in_avals(), expected.in_avals());
  for (std::uint64_t s = seed; s < seed + 3; ++s) {
    const Tensors in = hostile_inputs(expected, s);
    EXPECT_EQ(bit_difference(evaluate(found, in), evaluate(expected, in)), "")
        << "inputs of seed " << s << "\n"
        << to_string(expected) << "\nbecame\n"
        << to_string(found);
  }
}

std::size_t equations_in(const ClosedJaxpr& program) {
  std::size_t n = program.jaxpr.eqns.size();
  for (const Eqn& eqn : program.jaxpr.eqns)
    for (const JaxprPtr& body : nested_jaxprs(eqn)) n += equations_in(*body);
  return n;
}

}  // namespace etrace::testing
