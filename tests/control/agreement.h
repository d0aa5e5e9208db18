// Agreement of a function that uses control flow with its hand-unrolled form, in every mode of evaluation.
#pragma once

#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "support/functions.h"
#include "support/values.h"

namespace etrace::testing {

inline ScalarFunction scalar(const Function& f) {
  return [f](ArraySpan a) { return f(a)[0]; };
}

inline Array f64_scalar(double value) { return Tensor::full({Dtype::F64, {}}, value); }

struct Agreement {
  bool reverse_over_reverse = true;
  bool differences = true;  // also against finite differences
};

// Two functions of floating arguments whose first result is a scalar: at once, traced and interpreted, in
// value, tangent and gradient, and in second derivatives.
inline void expect_equivalent(const Function& f, const Function& unrolled, const Arrays& x,
                              Agreement how = {}) {
  Random random(99);
  Arrays both = x;
  std::vector<int> all;
  for (const Array& a : x) {
    all.push_back(static_cast<int>(all.size()));
    both.push_back(random.f64(a.shape()));
  }
  const ArraySpan v = ArraySpan(both).subspan(x.size());
  const Arrays y = f(x);
  expect_same(y, unrolled(x));
  const ClosedJaxpr traced = make_jaxpr(f, avals_of(x));
  EXPECT_NO_THROW(check(traced));
  expect_same(to_arrays(evaluate(traced, to_tensors(x))), y);

  const Arrays tangents = jvp(f)(both);
  expect_same(tangents, jvp(unrolled)(both));
  if (how.differences) {
    const Tensors args = to_tensors(x), direction = to_tensors(v);
    const Tensors d = directional_difference(
        [&](std::span<const Tensor> a) { return to_tensors(f(to_arrays(a))); }, args, direction, 1e-4);
    for (std::size_t i = 0; i < d.size(); ++i)
      if (d[i].defined()) expect_same(Arrays{tangents[y.size() + i]}, Arrays{d[i]}, 1e-7);
  }

  const Function g = grad(scalar(f), all), h = grad(scalar(unrolled), all);
  const Arrays gradient = h(x);
  expect_same(g(x), gradient);
  const ClosedJaxpr traced_gradient = make_jaxpr(g, avals_of(x));
  EXPECT_NO_THROW(check(traced_gradient));
  EXPECT_TRUE(equal(traced_gradient, parse(to_string(traced_gradient))));
  expect_same(to_arrays(evaluate(traced_gradient, to_tensors(x))), gradient);

  expect_same(jvp(g)(both), jvp(h)(both), 1e-10);  // forward over reverse
  if (!how.reverse_over_reverse) return;
  auto slope = [&](const Function& gradient_of) {
    return ScalarFunction([&, gradient_of](ArraySpan a) {
      const Arrays out = gradient_of(a);
      Array total = f64_scalar(0.0);
      for (std::size_t i = 0; i < out.size(); ++i) total = total + sum(out[i] * v[i]);
      return total;
    });
  };
  expect_same(grad(slope(g), all)(x), grad(slope(h), all)(x), 1e-10);
}

}  // namespace etrace::testing
