// What tests of functions of arrays share: comparison, and mapping by a plain loop.
#pragma once

#include <gtest/gtest.h>

#include "etrace/ops/shape.h"
#include "etrace/transform.h"
#include "support/numeric.h"

namespace etrace::testing {

inline void expect_same(ArraySpan found, ArraySpan expected, double tolerance = 1e-12) {
  const auto d = difference(found, expected, tolerance);
  EXPECT_FALSE(d) << *d;
}

// Entry i along the leading axis.
inline Array item(const Array& a, std::int64_t i) { return squeeze(slice_axis(a, 0, i, i + 1), {0}); }

// f mapped over the leading axis of the mapped arguments, one call per entry.
inline Arrays looped(const Function& f, const Arrays& args, const Mask& mapped, std::int64_t n) {
  std::vector<Arrays> columns;
  for (std::int64_t b = 0; b < n; ++b) {
    Arrays one;
    for (std::size_t i = 0; i < args.size(); ++i) one.push_back(mapped[i] ? item(args[i], b) : args[i]);
    const Arrays out = f(one);
    columns.resize(out.size());
    for (std::size_t k = 0; k < out.size(); ++k) columns[k].push_back(out[k]);
  }
  Arrays stacked;
  for (const Arrays& c : columns) stacked.push_back(stack(c, 0));
  return stacked;
}

}  // namespace etrace::testing
