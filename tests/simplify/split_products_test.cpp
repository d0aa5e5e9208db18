// Products with concatenations become products with their parts: the same bits, and what is known before a
// loop is computed before it.
#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"
#include "ops/partial_dot.h"
#include "support/programs.h"

namespace etrace {
namespace {

std::size_t equations_of(const ClosedJaxpr& program, const Primitive& prim) {
  std::size_t n = 0;
  for (const Eqn& eqn : program.jaxpr.eqns) n += eqn.prim == &prim ? 1 : 0;
  return n;
}
const ClosedJaxpr& body_of_loop(const ClosedJaxpr& program) {
  for (const Eqn& eqn : program.jaxpr.eqns)
    if (eqn.prim == &scan_p) return **eqn.params.find("jaxpr")->jaxpr();
  throw std::runtime_error("no loop in " + to_string(program));
}

ClosedJaxpr split_form(const Function& f, const Avals& in) {
  const ClosedJaxpr program = make_jaxpr(f, in);
  const ClosedJaxpr lean = simplify(program).to_run();
  testing::expect_same_bits(lean, program);
  EXPECT_TRUE(equal(simplify(lean).to_run(), lean)) << to_string(lean) << "\nthen\n"
                                                    << to_string(simplify(lean).to_run());
  return lean;
}

Aval floats(const Shape& shape, Dtype dtype = Dtype::F32) { return {dtype, shape}; }

// [a, b, …]·w over the axis along which the parts are joined.
struct Case {
  const char* name;
  Avals parts;
  int axis;
  Aval other;
  DotDims dims;
  bool parts_first = true;
};

TEST(SplitProducts, PartsAreMultipliedOneAfterTheOther) {
  const std::vector<Case> cases{
      {"two parts", {floats({3, 5}), floats({3, 40})}, 1, floats({45, 70}), {{1}, {0}, {}, {}}},
      {"f64",
       {floats({3, 5}, Dtype::F64), floats({3, 4}, Dtype::F64)},
       1,
       floats({9, 7}, Dtype::F64),
       {{1}, {0}, {}, {}}},
      {"integers", {{Dtype::I32, {3, 5}}, {Dtype::I32, {3, 4}}}, 1, {Dtype::I32, {9, 7}}, {{1}, {0}, {}, {}}},
      {"three parts",
       {floats({3, 5}), floats({3, 1}), floats({3, 9})},
       1,
       floats({15, 7}),
       {{1}, {0}, {}, {}}},
      {"vectors", {floats({5}), floats({4})}, 0, floats({9, 7}), {{0}, {0}, {}, {}}},
      {"a row of each", {floats({5}), floats({4})}, 0, floats({9}), {{0}, {0}, {}, {}}},
      {"the other transposed", {floats({3, 5}), floats({3, 4})}, 1, floats({7, 9}), {{1}, {1}, {}, {}}},
      {"joined along the first axis",
       {floats({5, 3}), floats({4, 3})},
       0,
       floats({9, 7}),
       {{0}, {0}, {}, {}}},
      {"on the right", {floats({5, 3}), floats({4, 3})}, 0, floats({7, 9}), {{1}, {0}, {}, {}}, false},
      {"matrices side by side",
       {floats({2, 3, 5}), floats({2, 3, 4})},
       2,
       floats({2, 9, 7}),
       {{2}, {1}, {0}, {0}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Avals in = c.parts;
    in.push_back(c.other);
    const ClosedJaxpr lean = split_form(
        [&](ArraySpan x) {
          const Array joined = concatenate(x.first(c.parts.size()), c.axis);
          return Arrays{c.parts_first ? dot_general(joined, x.back(), c.dims)
                                      : dot_general(x.back(), joined, c.dims)};
        },
        in);
    EXPECT_EQ(equations_of(lean, concatenate_p), 0U) << to_string(lean);
    EXPECT_EQ(equations_of(lean, dot_general_p), 0U);
    EXPECT_EQ(equations_of(lean, partial_dot_p), c.parts.size());
  }
}

TEST(SplitProducts, SeveralProductsMayReadTheSameParts) {
  const ClosedJaxpr lean = split_form(
      [](ArraySpan x) {
        const Array joined = concatenate(Arrays{x[0], tanh(x[1])}, 1);
        return Arrays{matmul_plain(joined, x[2]), matmul(joined, x[3], x[4])};
      },
      {floats({3, 5}), floats({3, 4}), floats({9, 7}), floats({9, 6}), floats({6})});
  EXPECT_EQ(equations_of(lean, concatenate_p), 0U) << to_string(lean);
  EXPECT_EQ(equations_of(lean, partial_dot_p), 4U);
}

// Where the concatenation is needed anyway, one product is enough.
TEST(SplitProducts, WhatOthersReadStays) {
  using Use = Array (*)(const Array&);
  const std::vector<Use> uses{[](const Array& u) { return u; }, [](const Array& u) { return tanh(u); },
                              // a product that keeps the joined axis
                              [](const Array& u) {
                                return dot_general(u, u, {{0}, {0}, {}, {}});
                              }};
  for (const Use use : uses) {
    const ClosedJaxpr lean = split_form(
        [&](ArraySpan x) {
          const Array joined = concatenate(Arrays{x[0], x[1]}, 1);
          return Arrays{matmul_plain(joined, x[2]), use(joined)};
        },
        {floats({3, 5}), floats({3, 4}), floats({9, 7})});
    EXPECT_EQ(equations_of(lean, concatenate_p), 1U) << to_string(lean);
    EXPECT_EQ(equations_of(lean, partial_dot_p), 0U);
  }
}

// h ← tanh([x, h]·W + b); hands out [x, h] if asked to.
ClosedJaxpr recurrent(bool data_first, bool handed_out, bool operator_of_etp, std::int64_t steps = 6,
                      std::int64_t units = 4) {
  const auto f = [=](ArraySpan a) {
    const ScanResult r = scan(
        [&](ArraySpan c, ArraySpan x) -> ScanResult {
          const Array joined = concatenate(data_first ? Arrays{x[0], c[0]} : Arrays{c[0], x[0]}, 1);
          const Array y = operator_of_etp ? matmul(joined, a[2], a[3]) : matmul_plain(joined, a[2]) + a[3];
          return {{tanh(y)}, handed_out ? Arrays{joined} : Arrays{}};
        },
        {a[0]}, {a[1]});
    Arrays out = r.carry;
    out.insert(out.end(), r.ys.begin(), r.ys.end());
    return out;
  };
  return make_jaxpr(
      f, Avals{floats({3, units}), floats({steps, 3, 5}), floats({units + 5, units}), floats({units})});
}

TEST(SplitProducts, TheStepsDataIsMultipliedBeforeTheLoop) {
  for (const bool handed_out : {false, true})
    for (const bool operator_of_etp : {false, true}) {
      const ClosedJaxpr program = recurrent(true, handed_out, operator_of_etp),
                        lean = simplify(program).to_run();
      testing::expect_same_bits(lean, program);
      EXPECT_TRUE(equal(simplify(lean).to_run(), lean)) << to_string(lean) << "\nthen\n"
                                                        << to_string(simplify(lean).to_run());
      EXPECT_EQ(equations_of(lean, partial_dot_p), 1U) << to_string(lean);
      const ClosedJaxpr& body = body_of_loop(lean);
      EXPECT_EQ(equations_of(body, partial_dot_p), 1U);
      EXPECT_EQ(equations_of(body, concatenate_p), handed_out ? 1U : 0U);
    }
}

// A loop over windows of a loop over steps: the product is one per window.
TEST(SplitProducts, MemoryDoesNotGrowWithTheNumberOfWindows) {
  const ClosedJaxpr lean = split_form(
      [](ArraySpan a) {
        return scan(
                   [&](ArraySpan window, ArraySpan xs) {
                     return scan(
                         [&](ArraySpan c, ArraySpan x) -> ScanResult {
                           return {{tanh(matmul_plain(concatenate(Arrays{x[0], c[0]}, 1), a[2]))}, {}};
                         },
                         {window[0]}, {xs[0]});
                   },
                   {a[0]}, {a[1]})
            .carry;
      },
      {floats({3, 4}), floats({7, 6, 3, 5}), floats({9, 4})});
  EXPECT_EQ(equations_of(lean, partial_dot_p), 0U) << to_string(lean);
  const ClosedJaxpr& window = body_of_loop(lean);
  EXPECT_EQ(equations_of(window, partial_dot_p), 1U);
  EXPECT_EQ(equations_of(body_of_loop(window), partial_dot_p), 1U);
}

// The sum runs over the state first: to begin with the data would change bits.
TEST(SplitProducts, DataBehindTheStateStaysInTheLoop) {
  const ClosedJaxpr program = recurrent(false, false, true), lean = simplify(program).to_run();
  testing::expect_same_bits(lean, program);
  EXPECT_EQ(equations_of(lean, partial_dot_p), 0U) << to_string(lean);
  EXPECT_EQ(equations_of(body_of_loop(lean), partial_dot_p), 2U);
}

// A product for all steps must not outgrow what is near; the loop may be any length.
TEST(SplitProducts, LongLoopsKeepTheirProducts) {
  const ClosedJaxpr lean = simplify(recurrent(true, true, true, 1 << 20)).to_run();
  EXPECT_EQ(equations_of(lean, partial_dot_p), 0U) << to_string(lean);
  EXPECT_EQ(equations_of(body_of_loop(lean), concatenate_p), 1U);
}

TEST(SplitProducts, AFactorThatChangesStaysInTheLoop) {
  const ClosedJaxpr lean = split_form(
      [](ArraySpan a) {
        return scan(
                   [&](ArraySpan c, ArraySpan x) -> ScanResult {
                     const Array y = tanh(matmul_plain(concatenate(Arrays{x[0], c[0]}, 1), c[1]));
                     return {{y, c[1] * 0.5}, {}};
                   },
                   {a[0], a[2]}, {a[1]})
            .carry;
      },
      {floats({3, 4}), floats({6, 3, 5}), floats({9, 4})});
  EXPECT_EQ(equations_of(lean, partial_dot_p), 0U) << to_string(lean);
  EXPECT_EQ(equations_of(body_of_loop(lean), partial_dot_p), 2U);
}

}  // namespace
}  // namespace etrace
