// scan and fori_loop: values, derivatives, batches, what reverse mode stores, nesting.
#include "control/agreement.h"
#include "etrace/simplify.h"

namespace etrace {
namespace {

using testing::expect_equivalent;
using testing::expect_error;
using testing::expect_same;
using testing::f64_scalar;
using testing::item;
using testing::looped;
using testing::Random;
using testing::scalar;

// A small recurrent net: (w[2,2], h0[2], xs[T,2]) -> (a loss, final h, ys).
ScanResult rnn_step(const Array& w, ArraySpan c, ArraySpan x) {
  const Array h = tanh(matmul_plain(c[0], w) + x[0]);
  return {{h}, {h * x[0]}};
}
Function rnn(ScanOptions options = {}) {
  return [options](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan x) { return rnn_step(a[0], c, x); };
    const ScanResult r = scan(body, {a[1]}, {a[2]}, options);
    return Arrays{sum(r.ys[0] * r.ys[0]) + sum(r.carry[0]), r.carry[0], r.ys[0]};
  };
}
Function unrolled_rnn(bool reverse) {
  return [reverse](ArraySpan a) {
    const std::int64_t n = a[2].shape()[0];
    Arrays ys(static_cast<std::size_t>(n));
    Array h = a[1];
    for (std::int64_t s = 0; s < n; ++s) {
      const std::int64_t t = reverse ? n - 1 - s : s;
      const ScanResult r = rnn_step(a[0], Arrays{h}, Arrays{item(a[2], t)});
      h = r.carry[0];
      ys[static_cast<std::size_t>(t)] = r.ys[0];
    }
    const Array y = stack(ys, 0);
    return Arrays{sum(y * y) + sum(h), h, y};
  };
}
Arrays rnn_args(std::int64_t length) {
  Random random(1);
  return {random.f64({2, 2}), random.f64({2}), random.f64({length, 2})};
}

TEST(Scan, IsTheUnrolledLoop) { expect_equivalent(rnn(), unrolled_rnn(false), rnn_args(5)); }
TEST(Scan, Reversed) { expect_equivalent(rnn({.reverse = true}), unrolled_rnn(true), rnn_args(5)); }
TEST(Scan, OfOneStep) { expect_equivalent(rnn(), unrolled_rnn(false), rnn_args(1)); }

TEST(Scan, WithCheckpoints) {
  for (const std::int64_t every : {1, 2, 4, 6, 100}) {  // dividing, not dividing, more than there are
    SCOPED_TRACE(every);
    expect_equivalent(rnn({.checkpoint_every = every}), unrolled_rnn(false), rnn_args(6));
  }
}

TEST(Scan, ReversedWithCheckpoints) {
  for (const std::int64_t every : {2, 4}) {
    SCOPED_TRACE(every);
    expect_equivalent(rnn({.reverse = true, .checkpoint_every = every}), unrolled_rnn(true), rnn_args(6));
  }
}

TEST(Scan, OfNoSteps) {
  const Arrays x = rnn_args(0);
  for (const ScanOptions& options : {ScanOptions{}, ScanOptions{.checkpoint_every = 2}}) {
    expect_same(rnn(options)(x), Arrays{sum(x[1]), x[1], zeros({0, 2}, Dtype::F64)});
    expect_same(grad(scalar(rnn(options)), {0, 1})(x), Arrays{zeros_like(x[0]), ones_like(x[1])});
  }
}

TEST(Scan, WithoutScannedArraysOrOutputs) {
  const Function f = [](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan) { return ScanResult{{c[0] * sin(a[0])}, {}}; };
    return scan(body, {a[0]}, {}, {.length = 4}).carry;
  };
  const Function g = [](ArraySpan a) { return Arrays{a[0] * integer_pow(sin(a[0]), 4)}; };
  expect_equivalent(f, g, {Random(2).f64({})});
}

TEST(Scan, WithoutACarry) {
  const Function f = [](ArraySpan a) {
    const ScanBody body = [&](ArraySpan, ArraySpan x) { return ScanResult{{}, {exp(x[0]) * a[0]}}; };
    return Arrays{sum(scan(body, {}, {a[1]}).ys[0])};
  };
  const Function g = [](ArraySpan a) { return Arrays{sum(exp(a[1]) * a[0])}; };
  expect_equivalent(f, g, {Random(2).f64({}), Random(3).f64({5})});
}

// An integer counter, a carry that only the constants reach, and one that nothing reaches.
TEST(Scan, CarriesThatStartWithoutATangent) {
  const Function f = [](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan x) {
      return ScanResult{{c[0] + 1, c[1] + a[0] * convert(c[0], Dtype::F64), c[2] * 0.5},
                        {c[1] * x[0] * c[2]}};
    };
    const Array counter = full({}, std::int64_t{0}, Dtype::I32);
    const ScanResult r = scan(body, {counter, f64_scalar(0.0), f64_scalar(2.0)}, {a[1]});
    return Arrays{sum(r.ys[0]) + r.carry[1]};
  };
  const Function g = [](ArraySpan a) {
    Array total = f64_scalar(0.0), c = f64_scalar(0.0);
    double decay = 2.0;
    for (int i = 0; i < 4; ++i, decay *= 0.5) {
      total = total + c * item(a[1], i) * decay;
      c = c + a[0] * static_cast<double>(i);
    }
    return Arrays{total + c};
  };
  expect_equivalent(f, g, {Random(2).f64({}), Random(3).f64({4})});
}

// The rule of the custom function returns a zero that is no symbolic one; the second carry never gets another
// tangent.
TEST(Scan, CarriesThatStartWithATangentOfZeros) {
  const Function step = custom_jvp([](ArraySpan a) { return Arrays{floor(a[0])}; },
                                   [](ArraySpan a) {
                                     return Arrays{floor(a[0]), zeros_like(a[0])};
                                   });
  const Function f = [&](ArraySpan a) {
    const ScanBody body = [](ArraySpan c, ArraySpan x) { return ScanResult{{c[0] * x[0] + c[1], c[1]}, {}}; };
    return Arrays{sum(scan(body, {a[0], step(Arrays{a[0] * 3.0})[0]}, {a[1]}).carry[0])};
  };
  const Function g = [](ArraySpan a) {
    Array h = a[0];
    for (int i = 0; i < 3; ++i) h = h * item(a[1], i) + floor(a[0] * 3.0);
    return Arrays{sum(h)};
  };
  expect_equivalent(f, g, {Random(2).f64({2}), Random(3).f64({3, 2})});
}

const Eqn& scan_of(const ClosedJaxpr& program, std::size_t which) {
  for (const Eqn& e : program.jaxpr.eqns)
    if (e.prim == &scan_p && which-- == 0) return e;
  throw ValueError("test", "there is no such scan in " + to_string(program));
}
// Types of the stacked results of a scan.
Avals stacked(const Eqn& eqn) {
  Avals out;
  for (std::size_t i = static_cast<std::size_t>(eqn.params.integer("num_carry")); i < eqn.out.size(); ++i)
    out.push_back(eqn.out[i].aval);
  return out;
}

// sin(w) is computed in the body but depends on constants only; x_t is there already.
TEST(Scan, ReverseModeStacksOnlyWhatChangesOverTime) {
  const Array w2 = Random(8).f64({2, 2});
  const ScalarFunction f = [&](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan t) {
      return ScanResult{{tanh(matmul_plain(c[0], sin(a[0])) + t[0] * c[0] + matmul_plain(t[0], w2))}, {}};
    };
    return sum(scan(body, {a[1]}, {a[2]}).carry[0]);
  };
  const ClosedJaxpr g = make_jaxpr(grad(f, {0, 1, 2}), avals_of(rnn_args(50)));
  const Avals kept = stacked(scan_of(g, 0));
  for (const Aval& a : kept) EXPECT_EQ(a, (Aval{Dtype::F64, {50, 2}}));
  EXPECT_LE(kept.size(), 3U) << to_string(g);  // h, and what the derivative of tanh needs
  EXPECT_TRUE(scan_of(g, 1).params.boolean_or("reverse", false));
}

// A step's share of a weight's gradient is a product: one sums them all. Behind a function of the weight it
// is more than that, and the loop sums.
TEST(Scan, ReverseModeFormsTheGradientOfAWeightAtOnce) {
  const Aval weight{Dtype::F64, {2, 2}};
  const auto carries_the_sum = [&](bool function_of_weight) {
    const ScalarFunction f = [&](ArraySpan a) {
      const ScanBody body = [&](ArraySpan c, ArraySpan t) {
        const Array w = function_of_weight ? a[0] * c[0] : a[0];
        return ScanResult{{tanh(matmul_plain(c[0], w) + t[0])}, {}};
      };
      return sum(scan(body, {a[1]}, {a[2]}).carry[0]);
    };
    const ClosedJaxpr g = make_jaxpr(grad(f, {0}), avals_of(rnn_args(50)));
    const Eqn& back = scan_of(g, 1);
    std::size_t sums = 0;
    for (std::int64_t i = 0; i < back.params.integer("num_carry"); ++i)
      sums += back.out[static_cast<std::size_t>(i)].aval == weight ? 1 : 0;
    return sums == 1;
  };
  EXPECT_FALSE(carries_the_sum(false));
  EXPECT_TRUE(carries_the_sum(true));
}

TEST(Scan, CheckpointsKeepOneCarryPerSegment) {
  auto numbers_kept = [](ScanOptions options) {
    std::int64_t total = 0;
    for (const Aval& a : stacked(scan_of(make_jaxpr(grad(scalar(rnn(options))), avals_of(rnn_args(60))), 0)))
      total += a.shape.size();
    return total;
  };
  // The outputs are stacked either way: 60·2. Beyond these, ten starts of segments.
  EXPECT_EQ(numbers_kept({.checkpoint_every = 6}), 60 * 2 + 10 * 2);
  EXPECT_GE(numbers_kept({}), 60 * 2 + 60 * 2);
}

// Forwards and backwards: what lies between arguments and gradient grows with the number of segments.
TEST(Scan, CheckpointsSaveMemory) {
  const auto arena = [](std::int64_t length, std::int64_t every) {
    const auto loss = [&](ArraySpan in) {
      const Array w = in[0];
      const ScanResult r = scan(
          [&](ArraySpan c, ArraySpan x) -> ScanResult {
            return {{tanh(matmul_plain(concatenate(Arrays{x[0], c[0]}, -1), w))}, {}};
          },
          {zeros({4, 16})}, Arrays{in[1]}, {.length = length, .checkpoint_every = every});
      return reduce_sum(r.carry[0], {0, 1});
    };
    const Avals in{{Dtype::F32, {24, 16}}, {Dtype::F32, {length, 4, 8}}};
    return Executable(simplify(make_jaxpr(grad(loss, {0}), in)).to_run()).arena_bytes();
  };
  EXPECT_LT(arena(512, 16), arena(512, 0) / 4);
}

TEST(Scan, Vmap) {
  Random random(4);
  const Arrays one{random.f64({2, 2}), random.f64({2}), random.f64({5, 2})};
  const Arrays many{random.f64({3, 2, 2}), random.f64({3, 2}), random.f64({3, 5, 2})};
  const Function f = rnn(), g = grad(scalar(f), {0, 1, 2});
  const Function checkpointed = grad(scalar(rnn({.checkpoint_every = 2})), {0, 1, 2});
  for (unsigned bits = 1; bits < 8; ++bits) {
    SCOPED_TRACE(bits);
    Mask mapped;
    Arrays args;
    std::vector<int> axes;
    for (std::size_t i = 0; i < 3; ++i) {
      mapped.push_back(((bits >> i) & 1U) != 0);
      args.push_back(mapped[i] ? many[i] : one[i]);
      axes.push_back(mapped[i] ? 0 : -1);
    }
    expect_same(vmap(f, axes)(args), looped(f, args, mapped, 3));
    const Arrays gradients = looped(g, args, mapped, 3);
    expect_same(vmap(g, axes)(args), gradients);
    expect_same(vmap(checkpointed, axes)(args), gradients);
  }
}

TEST(Scan, GradOfVmap) {
  Random random(5);
  const Arrays args{random.f64({2, 2}), random.f64({3, 2}), random.f64({3, 5, 2})};
  const ScalarFunction total = [](ArraySpan a) { return sum(vmap(rnn(), {-1, 0, 0})(a)[0]); };
  const Arrays each = looped(grad(scalar(rnn()), {0, 1, 2}), args, {false, true, true}, 3);
  expect_same(grad(total, {0, 1, 2})(args), Arrays{sum(each[0], {0}), each[1], each[2]});
}

TEST(Scan, InsideScan) {
  const Function f = [](ArraySpan a) {
    const ScanBody outer = [&](ArraySpan c, ArraySpan x) {
      const ScanBody inner = [&](ArraySpan d, ArraySpan y) {
        const Array h = tanh(d[0] * a[0] + y[0] * c[0]);
        return ScanResult{{h}, {h * h}};
      };
      const ScanResult r = scan(inner, {c[0]}, {x[0]});
      return ScanResult{{r.carry[0]}, {sum(r.ys[0])}};
    };
    const ScanResult r = scan(outer, {a[1]}, {a[2]});
    return Arrays{sum(r.ys[0]) + r.carry[0], r.ys[0]};
  };
  const Function g = [](ArraySpan a) {
    Array c = a[1];
    Arrays ys;
    for (int t = 0; t < 3; ++t) {
      const Array start = c, xs = item(a[2], t);
      Array y = f64_scalar(0.0);
      for (int s = 0; s < 4; ++s) {
        c = tanh(c * a[0] + item(xs, s) * start);
        y = y + c * c;
      }
      ys.push_back(y);
    }
    return Arrays{sum(stack(ys, 0)) + c, stack(ys, 0)};
  };
  Random random(6);
  expect_equivalent(f, g, {random.f64({}), random.f64({}), random.f64({3, 4})});
}

TEST(Scan, SaysWhatIsWrong) {
  const Array h = Random(1).f64({2}), xs = Random(2).f64({5, 2});
  const ScanBody keep = [](ArraySpan c, ArraySpan) { return ScanResult{{c[0]}, {}}; };
  expect_error<ValueError>("lengths 5 and 4", [&] { scan(keep, {h}, {xs, zeros({4, 2}, Dtype::F64)}); });
  expect_error<ValueError>("lengths 4 and 5", [&] { scan(keep, {h}, {xs}, {.length = 4}); });
  expect_error<ValueError>("length must be given", [&] { scan(keep, {h}, {}); });
  expect_error<ValueError>("scalar", [&] { scan(keep, {h}, {f64_scalar(1.0)}); });
  expect_error<ValueError>("0 carries but 1",
                           [&] { scan([](ArraySpan, ArraySpan) { return ScanResult{}; }, {h}, {xs}); });
  expect_error<CompilationError>("[scan] carry 0: found f64[], expected f64[2]", [&] {
    scan([](ArraySpan c, ArraySpan) { return ScanResult{{sum(c[0])}, {}}; }, {h}, {xs});
  });
  expect_error<CompilationError>("found f32[2], expected f64[2]", [&] {
    scan([](ArraySpan c, ArraySpan) { return ScanResult{{convert(c[0], Dtype::F32)}, {}}; }, {h}, {xs});
  });
}

TEST(Scan, BareNumbersTakeTheTypeOfTheCarry) {
  const Array xs = Random(3).f64({5}), total = reduce_sum(xs, {0});
  const ScanBody add = [](ArraySpan c, ArraySpan x) { return ScanResult{{c[0] + x[0], c[1] + 1.0}, {c[0]}}; };
  const ScanResult r = scan(add, {Array(0.0), Array(0)}, {xs});
  expect_same(r.carry, Arrays{total, convert(Array(5.0), Dtype::F32)});
  EXPECT_EQ(r.ys[0].dtype(), Dtype::F64);
  const auto counted = [](ArraySpan v) { return v[0] < Array(3); };
  const Function more = [&](ArraySpan v) { return Arrays{v[0] + 1, v[1] + total}; };
  expect_same(while_loop(counted, more, {Array(0), Array(0.0)}),
              Arrays{convert(Array(3), Dtype::I32), 3.0 * total});
  expect_error<CompilationError>("carry 0: found f64[], expected f32[]; what a loop carries keeps its type",
                                 [&] {
                                   scan(add, {convert(Array(0.0), Dtype::F32), Array(0)}, {xs});
                                 });
}

TEST(ForiLoop, TheIndexFits) {
  const auto body = [](const Array& i, ArraySpan c) { return Arrays{c[0] + convert(i, Dtype::F64)}; };
  expect_same(fori_loop(2147483646, 2147483648, body, {f64_scalar(0.0)}), Arrays{f64_scalar(4294967293.0)});
  expect_error<ValueError>("the index is an i32",
                           [&] { fori_loop(1LL << 40, (1LL << 40) + 2, body, {f64_scalar(0.0)}); });
}

TEST(ForiLoop, IsTheUnrolledLoop) {
  const Function f = [](ArraySpan a) {
    const auto body = [&](const Array& i, ArraySpan c) {
      return Arrays{c[0] * a[0] + convert(i, Dtype::F64)};
    };
    return fori_loop(2, 6, body, {a[1]});
  };
  const Function g = [](ArraySpan a) {
    Array c = a[1];
    for (int i = 2; i < 6; ++i) c = c * a[0] + static_cast<double>(i);
    return Arrays{c};
  };
  expect_equivalent(f, g, {Random(1).f64({}), Random(2).f64({})});
  const Array x = Random(3).f64({2});
  const auto twice = [](const Array&, ArraySpan c) { return Arrays{c[0] * 2.0}; };
  expect_same(fori_loop(3, 3, twice, {x}), Arrays{x});
  expect_same(fori_loop(3, 1, twice, {x}), Arrays{x});
}

}  // namespace
}  // namespace etrace
