// Every row's samples by emitted code and by the interpreter. Samples of many rows share a program: what is
// tested is also that they do not disturb each other.
#include <gtest/gtest.h>

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
    EXPECT_TRUE(found[i] == expected[i])
        << labels[i] << ", result " << i << ": " << to_string(found[i].aval()) << " is "
        << ulps_apart(found[i], expected[i]) << " ulp away";
}

TEST(NativePrimitives, EverySampleGivesTheSameBits) {
  const std::vector<Labelled> all = all_samples(3);
  constexpr std::size_t kTogether = 300;
  for (std::size_t i = 0; i < all.size(); i += kTogether)
    compare(std::span(all).subspan(i, std::min(kTogether, all.size() - i)));
}

}  // namespace
}  // namespace etrace::testing
