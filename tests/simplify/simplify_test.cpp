// Loops and branches made lean, and whole programs: the same bits, and nothing left to do.
#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"
#include "support/programs.h"

namespace etrace {
namespace {

using testing::equations_in;
using testing::expect_same_bits;

const Eqn* find_eqn(const ClosedJaxpr& program, const Primitive& prim) {
  for (const Eqn& eqn : program.jaxpr.eqns)
    if (eqn.prim == &prim) return &eqn;
  return nullptr;
}

ClosedJaxpr lean_form(const Function& f, const Avals& in) {
  const ClosedJaxpr program = make_jaxpr(f, in);
  const ClosedJaxpr lean = simplify(program).to_run();
  expect_same_bits(lean, program);
  EXPECT_TRUE(equal(simplify(lean).to_run(), lean)) << to_string(lean) << "\nthen\n"
                                                    << to_string(simplify(lean).to_run());
  return lean;
}

const Aval kVector{Dtype::F32, {3}}, kStack{Dtype::F32, {5, 3}}, kMatrix{Dtype::F32, {3, 3}};

TEST(LeanLoops, UniformOperandsBecomeLiterals) {
  for (const std::int64_t n : {3, 300}) {
    const Aval square{Dtype::F32, {n, n}};
    const Array ones(Tensor::full(square, 1.0)), half(Tensor::full(square, 0.5));
    const ClosedJaxpr lean = lean_form(
        [&](ArraySpan a) {
          return scan(
                     [&](ArraySpan c, ArraySpan) {
                       return ScanResult{{c[0] * ones * half}, {}};
                     },
                     {a[0]}, {}, {.length = 2})
              .carry;
        },
        {square});
    ASSERT_EQ(equations_in(lean), 2U) << to_string(lean);
    EXPECT_TRUE(lean.consts.empty());
    EXPECT_EQ(lean.jaxpr.eqns[0].in.size(), 1U);
  }
}

TEST(LeanLoops, CarriesThatNeverChangeAreConstants) {
  const ClosedJaxpr lean = lean_form(
      [](ArraySpan a) {
        const ScanResult r = scan(
            [](ArraySpan c, ArraySpan x) {
              return ScanResult{{c[0] * c[1] + x[0], c[1], c[2] * 1.0}, {c[1], x[0], c[0], c[0]}};
            },
            {a[0], a[1], zeros({3})}, {a[2]});
        return Arrays{r.carry[0], r.carry[1], r.carry[2], r.ys[0], r.ys[1], r.ys[2], r.ys[3]};
      },
      {kVector, kVector, kStack});
  const Eqn* loop = find_eqn(lean, scan_p);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->params.integer("num_carry"), 1);
  EXPECT_EQ(loop->params.integer("num_consts"), 1);
  EXPECT_EQ(loop->out.size(), 2U);  // the carry, and its entries once
  EXPECT_EQ(lean.jaxpr.outs[4], Atom(lean.jaxpr.invars[2]));
}

TEST(LeanLoops, EntriesThatAreTheSameAtEveryStepAreConstants) {
  const ClosedJaxpr lean = lean_form(
      [](ArraySpan a) {
        const Array same = broadcast_to(a[1], {5, 3}), zero = zeros({5, 3}), row = broadcast_to(a[2], {5, 3});
        return scan(
                   [](ArraySpan c, ArraySpan x) {
                     return ScanResult{{tanh(c[0] + x[0]) * x[2] - x[1]}, {}};
                   },
                   {a[0]}, {same, zero, row}, {.reverse = true})
            .carry;
      },
      {kVector, kVector, {Dtype::F32, {1, 3}}});
  const Eqn* loop = find_eqn(lean, scan_p);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->params.integer("num_consts"), 2);
  EXPECT_EQ(loop->in.size(), 3U);
}

TEST(LeanLoops, WhatReadsConstantsOnlyIsComputedBefore) {
  const ClosedJaxpr lean = lean_form(
      [](ArraySpan a) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan) {
              const Array w = matmul_plain(a[1], transpose(a[1])) + 1.0;
              return ScanResult{{tanh(matmul_plain(c[0], w))}, {w}};
            },
            {a[0]}, {}, {.length = 4});
        return Arrays{r.carry[0], r.ys[0]};
      },
      {kVector, kMatrix});
  const Eqn* loop = find_eqn(lean, scan_p);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->params.jaxpr("jaxpr")->jaxpr.eqns.size(), 2U);
  EXPECT_EQ(loop->out.size(), 1U);
  EXPECT_NE(find_eqn(lean, dot_general_p), nullptr);
}

TEST(LeanLoops, GrowingValuesStayInside) {
  const ClosedJaxpr body = make_jaxpr(
      [](ArraySpan a) {
        return Arrays{a[1] + cumsum(broadcast_in_dim(a[0], {3, 50}, {0}), 1)};
      },
      Avals{kVector, {Dtype::F32, {3, 50}}});
  const ClosedJaxpr lean = lean_form(
      [&](ArraySpan a) {
        return bind_primitive(
            scan_p, a,
            {{"jaxpr", share(body)}, {"length", 3}, {"reverse", false}, {"num_consts", 1}, {"num_carry", 1}});
      },
      body.in_avals());
  ASSERT_EQ(lean.jaxpr.eqns.size(), 1U) << to_string(lean);
  EXPECT_EQ(equations_in(lean), 4U);
}

TEST(LeanLoops, OneStepIsNoLoop) {
  const ClosedJaxpr lean = lean_form(
      [](ArraySpan a) {
        const ScanResult r = scan(
            [](ArraySpan c, ArraySpan x) {
              const Array h = tanh(c[0] * x[0]);
              return ScanResult{{h}, {h, x[0]}};
            },
            {a[0]}, {a[1]});
        return Arrays{r.carry[0], r.ys[0], r.ys[1]};
      },
      {kVector, {Dtype::F32, {1, 3}}});
  EXPECT_EQ(find_eqn(lean, scan_p), nullptr);
  EXPECT_EQ(lean.jaxpr.eqns.size(), 4U) << to_string(lean);  // reshape, mul, tanh, reshape
}

TEST(LeanLoops, NoSteps) {
  lean_form(
      [](ArraySpan a) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan x) {
              return ScanResult{{c[0] * x[0], c[1]}, {c[0], sin(a[1])}};
            },
            {a[0], a[1]}, {a[2]});
        return Arrays{r.carry[0], r.carry[1], r.ys[0], r.ys[1]};
      },
      {kVector, kVector, {Dtype::F32, {0, 3}}});
}

TEST(LeanLoops, EqualLoopsRunOnce) {
  const ClosedJaxpr lean = lean_form(
      [](ArraySpan a) {
        Arrays out;
        for (int k = 0; k < 3; ++k) {
          const Array ones(Tensor::full(kVector, 1.0));  // a constant of its own each time
          out.push_back(scan(
                            [](ArraySpan c, ArraySpan x) {
                              return ScanResult{{c[0] * x[0]}, {}};
                            },
                            {ones}, {a[0]})
                            .carry[0]);
        }
        return out;
      },
      {kStack});
  EXPECT_EQ(equations_in(lean), 3U) << to_string(lean);
}

TEST(LeanLoops, BodiesShareConstants) {
  const Array w = testing::Random(1).tensor(kVector);
  ClosedJaxpr body =
      make_jaxpr([](ArraySpan a) { return Arrays{a[1] * a[0] + a[0]}; }, Avals{kVector, kVector});
  body.jaxpr.constvars = {body.jaxpr.invars[0]};
  body.jaxpr.invars.erase(body.jaxpr.invars.begin());
  body.consts = {w.tensor()};
  const Params params{
      {"jaxpr", share(body)}, {"length", 3}, {"reverse", false}, {"num_consts", 0}, {"num_carry", 1}};
  const ClosedJaxpr lean = lean_form(
      [&](ArraySpan a) {
        const Array index =
            Array(Tensor::full({Dtype::I32, {}}, std::int64_t{1})) + convert(sum(a[0]) > 0.0, Dtype::I32);
        return Arrays{
            bind_primitive(scan_p, {a[0]}, params)[0], bind_primitive(scan_p, {a[1]}, params)[0],
            bind_primitive(cond_p, {index, a[1]}, {{"branches", Attr::list({share(body), share(body)})}})[0]};
      },
      {kVector, kVector});
  ASSERT_EQ(lean.consts.size(), 1U);
  for (const Eqn& eqn : lean.jaxpr.eqns)
    for (const JaxprPtr& nested : nested_jaxprs(eqn)) EXPECT_TRUE(nested->consts.empty());
}

TEST(LeanLoops, While) {
  const ClosedJaxpr lean = lean_form(
      [](ArraySpan a) {
        const Array limit(Tensor::full({Dtype::I32, {}}, std::int64_t{4}));
        const Arrays r =
            while_loop([&](ArraySpan c) { return c[0] < limit; },
                       [&](ArraySpan c) {
                         return Arrays{c[0] + Array(1), c[1] * c[2] * ones({3}), c[2], exp(c[3])};
                       },
                       {Array(Tensor::full({Dtype::I32, {}}, std::int64_t{0})), a[0], a[1], a[0]});
        return Arrays{r[1], r[2]};
      },
      {kVector, kVector});
  const Eqn* loop = find_eqn(lean, while_p);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->in.size(), 3U) << to_string(lean);  // one constant, the counter, the product
  EXPECT_EQ(loop->out.size(), 2U);
  EXPECT_EQ(lean.jaxpr.outs[1], Atom(lean.jaxpr.invars[1]));
}

TEST(LeanLoops, Cond) {
  const ClosedJaxpr lean = lean_form(
      [](ArraySpan a) {
        const Array two = full({3}, 2.0, Dtype::F32);
        return cond(
            sum(a[0]) > 0.0,
            [&](ArraySpan x) {
              return Arrays{x[0] * two, x[1], zeros({3}), x[0]};
            },
            [&](ArraySpan x) {
              return Arrays{x[0] + x[1] * ones({3}), x[1], zeros({3}), x[1]};
            },
            {a[0], a[1], a[2]});
      },
      {kVector, kVector, kVector});
  const Eqn* branch = find_eqn(lean, cond_p);
  ASSERT_NE(branch, nullptr);
  EXPECT_EQ(branch->in.size(), 3U);
  EXPECT_EQ(branch->out.size(), 2U);
  const ClosedJaxpr known = lean_form(
      [](ArraySpan a) {
        return cond(
            Array(Tensor::full({Dtype::Bool, {}}, true)), [](ArraySpan x) { return Arrays{sin(x[0])}; },
            [](ArraySpan x) { return Arrays{cos(x[0])}; }, {a[0]});
      },
      {kVector});
  EXPECT_EQ(equations_in(known), 1U) << to_string(known);
}

TEST(LeanLoops, ReverseModeThroughLoops) {
  const ScalarFunction loss = [](ArraySpan a) {
    const ScanResult r = scan(
        [&](ArraySpan c, ArraySpan x) {
          const Array h = tanh(matmul_plain(c[0], a[1]) + x[0]);
          return ScanResult{{h}, {sum(h * h)}};
        },
        {a[0]}, {a[2]});
    const Arrays w = while_loop([](ArraySpan c) { return c[0] < 3.0; },
                                [&](ArraySpan c) {
                                  return Arrays{c[0] + 1.0, c[1] * a[0]};
                                },
                                {full({}, 0.0, Dtype::F32), r.carry[0]});
    return sum(r.ys[0]) + sum(w[1]);
  };
  const ClosedJaxpr gradient = make_jaxpr(grad(loss, {0, 1, 2}), Avals{kVector, kMatrix, kStack});
  const ClosedJaxpr lean = simplify(gradient).to_run();
  EXPECT_LT(equations_in(lean), equations_in(gradient));
  expect_same_bits(lean, gradient);
  EXPECT_TRUE(equal(simplify(lean).to_run(), lean));
}

TEST(SimplifyPasses, EachKeepsTheMeaning) {
  const Function f = [](ArraySpan a) {
    const Array w = full({3, 3}, 1.0, Dtype::F32) * 0.5;
    const ScanResult r = scan(
        [&](ArraySpan c, ArraySpan x) {
          return ScanResult{{jit([&](ArraySpan y) { return Arrays{tanh(y[0] * x[0])}; })(c)[0], c[1]},
                            {c[0]}};
        },
        {a[0], a[0]}, {a[1]});
    return Arrays{matmul_plain(r.carry[0], w), expand_dims(squeeze(expand_dims(r.ys[0], {0}), {0}), {1})};
  };
  const ClosedJaxpr program = make_jaxpr(f, {{kVector, kStack}});
  LeanJaxpr step_by_step(program);
  std::size_t names = 0;
  for (const SimplifyPass& pass : simplify_passes()) {
    EXPECT_FALSE(pass.name.empty() || pass.doc.empty());
    const ClosedJaxpr before = step_by_step.to_run();
    const bool changed = pass.run(step_by_step);
    EXPECT_EQ(changed, !equal(before, step_by_step.to_run())) << pass.name;
    expect_same_bits(step_by_step.to_run(), program);
    ++names;
  }
  EXPECT_EQ(names, 5U);
}

// Simplification drops what only derivatives read, so that what it gives is no program to differentiate.
template <class Program>
concept Differentiable = requires(const Program& p, const Mask& active) {
  jvp(p, active);
}
|| requires(const Program& p, const Mask& active) { vjp(p, active); }
|| requires(const Program& p, const Mask& active) { linearize(p, active); }
|| requires(const Program& p, const Mask& active) { vmap(p, active, 2); }
|| requires(const Program& p) { share(p); }
|| requires(const Program& p) { eval_jaxpr(p, ArraySpan()); };
static_assert(Differentiable<ClosedJaxpr> && !Differentiable<LeanJaxpr>);
static_assert(!std::is_convertible_v<LeanJaxpr, ClosedJaxpr> &&
              !std::is_convertible_v<ClosedJaxpr, LeanJaxpr>);

TEST(Simplify, KeepsOriginsAndIds) {
  const ClosedJaxpr program = make_jaxpr(
      [](ArraySpan a) {
        const OriginScope scope({.module = {"net", "cell"}});
        return Arrays{tanh(squeeze(expand_dims(a[0], {0}), {0})), sum(expand_dims(a[0], {1}), {1})};
      },
      Avals{{Dtype::F32, {3}}});
  const ClosedJaxpr lean = simplify(program).to_run();
  ASSERT_EQ(lean.jaxpr.eqns.size(), 1U) << to_string(lean);
  EXPECT_EQ(lean.jaxpr.eqns[0].origin.module, (std::vector<std::string>{"net", "cell"}));
  EXPECT_EQ(lean.jaxpr.eqns[0].id, program.jaxpr.eqns[2].id);
}

// Random programs -------------------------------------------------------------------------------------------
// Every operation with parameters that the functions of etrace/ops would not write: identities, unit axes,
// repeated parts.
class Programs {
 public:
  explicit Programs(std::uint64_t seed) : random_(seed) {}

  ClosedJaxpr make() {
    const Avals in{{Dtype::F32, {2, 3}}, {Dtype::F32, {3}}, {Dtype::F32, {}}};
    return make_jaxpr(
        [&](ArraySpan a) {
          pool_.assign(a.begin(), a.end());
          for (int i = 0; i < 14; ++i) add_step();
          return Arrays(pool_.end() - 4, pool_.end());
        },
        in);
  }

 private:
  std::int64_t below(std::int64_t n) {
    return std::min(n - 1, static_cast<std::int64_t>(random_.uniform(0.0, static_cast<double>(n))));
  }
  Array any_array() {
    return pool_[static_cast<std::size_t>(below(static_cast<std::int64_t>(pool_.size())))];
  }
  double special() {
    static constexpr double kValues[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0};
    return kValues[below(6)];
  }
  Array literal_like(const Array& x) {
    const Shape shape = below(2) == 0 ? x.shape() : Shape{};
    if (below(3) == 0) return Tensor::full({x.dtype(), x.shape()}, special());  // a stored constant
    return full(shape, special(), x.dtype());
  }

  Array movement(const Array& x) {
    Dims sizes = x.shape().to_dims();
    const auto rank = static_cast<std::int64_t>(x.rank());
    switch (below(9)) {
      case 0:
        return bind1(expand_dims_p, {x}, {{"dimensions", Dims{below(rank + 1)}}});
      case 1:
        for (std::int64_t i = 0; i < rank; ++i)
          if (sizes[static_cast<std::size_t>(i)] == 1)
            return bind1(squeeze_p, {x}, {{"dimensions", Dims{i}}});
        return x;
      case 2:
        return bind1(reshape_p, {x}, {{"new_sizes", Dims{1, x.size()}}, {"dimensions", nullptr}});
      case 3: {
        Dims order;
        for (std::int64_t i = 0; i < rank; ++i) order.insert(order.begin() + below(i + 1), i);
        return bind1(transpose_p, {x}, {{"permutation", order}});
      }
      case 4: {
        Dims axes;
        for (std::int64_t i = 0; i < rank; ++i) axes.push_back(i + 1);
        return bind1(broadcast_in_dim_p, {x},
                     {{"shape", x.shape().with_front(1 + below(2))}, {"broadcast_dimensions", axes}});
      }
      case 5: {
        Dims start, limit;
        for (const std::int64_t n : sizes) {
          start.push_back(n == 0 ? 0 : below(2) * below(n));
          limit.push_back(n);
        }
        return bind1(slice_p, {x},
                     {{"start_indices", start}, {"limit_indices", limit}, {"strides", nullptr}});
      }
      case 6:
        return rank == 0 ? x : bind1(rev_p, {x}, {{"dimensions", Dims{below(rank)}}});
      case 7:
        return bind1(stack_p, {x, below(2) == 0 ? x : full_like(x, special())}, {{"axis", below(rank + 1)}});
      default:
        return rank == 0 ? x
                         : bind1(concatenate_p,
                                 {x, literal_like(broadcast_to(x, x.shape())).rank() == x.rank()
                                         ? full_like(x, special())
                                         : x},
                                 {{"dimension", below(rank)}});
    }
  }

  Array arithmetic(const Array& x) {
    const Array y = below(2) == 0 ? literal_like(x) : x;
    switch (below(12)) {
      case 0:
        return bind1(mul_p, {x, y});
      case 1:
        return bind1(add_p, {y, x});
      case 2:
        return bind1(sub_p, {x, y});
      case 3:
        return bind1(add_p, {x, bind1(tanh_p, {x})});
      case 4:
        return bind1(neg_p, {x});
      case 5:
        return bind1(max_p, {x, y});
      case 6:
        return bind1(select_n_p, {bind1(lt_p, {x, y}), x, y});
      case 7:
        return bind1(select_n_p, {full(x.shape(), below(2) == 0, Dtype::Bool), x, y});
      case 8:
        return convert(convert(x, Dtype::F64), Dtype::F32);
      case 9:
        return bind1(stop_gradient_p, {x});
      case 10:
        return bind1(div_p, {x, y});
      default:
        return bind1(heaviside_surrogate_gradient_p, {x, bind1(abs_p, {x})});
    }
  }

  Array reduction(const Array& x) {
    if (x.rank() == 0) return x;
    const Params axes{{"axes", Dims{below(static_cast<std::int64_t>(x.rank()))}}};
    return below(2) == 0 ? bind1(reduce_sum_p, {x}, axes) : bind1(reduce_max_p, {x}, axes);
  }

  Array product(const Array& x) {
    if (x.rank() != 2) return x;
    return bind1(
        dot_general_p, {bind1(transpose_p, {x}, {{"permutation", Dims{1, 0}}}), x},
        {{"dimension_numbers", Attr::list({Attr::list({Dims{1}, Dims{0}}), Attr::list({Dims{}, Dims{}})})}});
  }

  void loop(const Array& x) {
    const Array w = literal_like(x), other = any_array();
    const ScanResult r = scan(
        [&](ArraySpan c, ArraySpan t) {
          const Array once = bind1(mul_p, {other, other});
          return ScanResult{{bind1(add_p, {bind1(mul_p, {c[0], w}), t[0]}), c[1]}, {c[0], once, t[0]}};
        },
        {x, other}, {broadcast_to(x, x.shape().with_front(1 + below(3)))});
    pool_.push_back(r.carry[0]);
    pool_.push_back(r.carry[1]);
    pool_.push_back(r.ys[static_cast<std::size_t>(below(3))]);
  }

  void add_step() {
    const Array x = any_array();
    if (x.size() > 200 || x.rank() > 4) return pool_.push_back(bind1(reduce_sum_p, {x}, {{"axes", Dims{0}}}));
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return pool_.push_back(movement(x));
      case 4:
      case 5:
      case 6:
        return pool_.push_back(arithmetic(x));
      case 7:
        return pool_.push_back(reduction(x));
      case 8:
        return pool_.push_back(product(x));
      default:
        return loop(x);
    }
  }

  testing::Random random_;
  Arrays pool_;
};

TEST(Simplify, RandomProgramsKeepEveryBit) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ClosedJaxpr program = Programs(seed).make();
    const ClosedJaxpr lean = simplify(program).to_run();
    expect_same_bits(lean, program, seed);
    EXPECT_LE(equations_in(lean), equations_in(program) + 2);
    EXPECT_TRUE(equal(simplify(lean).to_run(), lean)) << to_string(lean) << "\nthen\n"
                                                      << to_string(simplify(lean).to_run());
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace etrace
