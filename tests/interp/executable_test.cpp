// The interpreter: every program gives what its equations give one by one, from planned memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "interp/arena.h"
#include "runtime/thread_pool.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using testing::difference;
using testing::expect_error;
using testing::Random;

const Aval kVector{Dtype::F64, {33}};

Tensors random_args(const ClosedJaxpr& program, std::uint64_t seed) {
  Random random(seed);
  Tensors args;
  for (const Aval& a : program.in_avals()) args.push_back(random.tensor(a));
  return args;
}

// Against the equations one by one, several runs of one Executable with different arguments.
void expect_as_eager(const ClosedJaxpr& program) {
  const Executable exe(program);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Tensors args = random_args(program, seed);
    const auto d = difference(exe(args), to_tensors(eval_jaxpr(program, to_arrays(args))), 0.0);
    EXPECT_FALSE(d) << *d << "\n" << to_string(program);
  }
}

ClosedJaxpr chain(int length) {
  return make_jaxpr(
      [&](ArraySpan x) {
        Array y = x[0];
        for (int i = 0; i < length; ++i) y = tanh(y * 1.5 + x[1]);
        return Arrays{y};
      },
      Avals{kVector, kVector});
}

TEST(Executable, ChainIsAsEager) { expect_as_eager(chain(12)); }

TEST(Executable, MemoryOfDeadValuesIsUsedAgain) {
  const Executable exe(chain(50));
  EXPECT_EQ(exe.steps(), 150U);
  EXPECT_LT(exe.arena_bytes(), 6 * kVector.bytes());  // not 150
}

TEST(Executable, ValuesThatLiveLongKeepTheirMemory) {
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        Arrays kept;
        for (int i = 0; i < 10; ++i) kept.push_back(sin(x[0] * static_cast<double>(i)));
        Array total = x[0];
        for (const Array& k : kept) total = total + k * x[0];
        std::reverse(kept.begin(), kept.end());
        for (const Array& k : kept) total = total - cos(k);
        return Arrays{total, kept[3]};
      },
      Avals{kVector}));
}

TEST(Executable, OutputsThatAreInputsConstantsLiteralsOrDuplicates) {
  const Array w = Random(3).f64({33});
  expect_as_eager(make_jaxpr(
      [&](ArraySpan x) {
        const Array y = x[0] * w;
        return Arrays{x[1], y,    w,        full({}, 2.5, Dtype::F64),
                      y,    x[1], y + x[0], full({2, 2}, 1.0, Dtype::F32)};
      },
      Avals{kVector, kVector}));
}

TEST(Executable, OutputsThatAreReadByLaterEquations) {
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        const Array a = x[0] * 2.0, b = a + x[0], c = b * a;
        return Arrays{a, b, c, a * b * c};
      },
      Avals{kVector}));
}

TEST(Executable, InPlaceDoesNotTouchOperandsThatAreStillNeeded) {
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        const Array a = exp(x[0]);  // an intermediate value
        const Array b = a * a;      // a is read twice here and needed below
        const Array c = b - a;      // a dies here
        const Array d = c * c;      // the same dying operand twice
        const Array e = d / (1.0 + d);
        return Arrays{e};
      },
      Avals{kVector}));
}

TEST(Executable, InPlaceLeavesInputsAndConstantsAlone) {
  const Array w = Random(4).f64({33});
  const ClosedJaxpr program =
      make_jaxpr([&](ArraySpan x) { return Arrays{neg(x[0] + 0.0) * exp(w * x[0])}; }, Avals{kVector});
  const Executable exe(program);
  const Tensors args = random_args(program, 5);
  const Tensor before = Tensor::copy_of(args[0].aval(), args[0].bytes());
  const Tensors first = exe(args), second = exe(args);
  EXPECT_EQ(first[0], second[0]);
  EXPECT_EQ(args[0], before);
}

TEST(Executable, BroadcastOperandsAreNotOverwritten) {
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        const Array column = exp(sum(x[0], {1}, true));  // [5,1], dies in the next line
        const Array scalar = exp(sum(x[0]));             // [], the same
        return Arrays{bind1(mul_p, {exp(x[0]), column}), bind1(add_p, {scalar, x[0]})};
      },
      Avals{{Dtype::F64, {5, 7}}}));
  // As many bytes as the result, which is of a narrower type: 8 booleans on top of two floats read four
  // times.
  expect_as_eager(make_jaxpr([](ArraySpan x) { return Arrays{convert(exp(x[0]) < exp(x[1]), Dtype::F32)}; },
                             Avals{{Dtype::F32, {4, 1}}, {Dtype::F32, {1, 2}}}));
  // One element, so that a column and a matrix have the same size.
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        return Arrays{bind1(mul_p, {exp(x[0]), exp(sum(x[0]))})};
      },
      Avals{{Dtype::F64, {1, 1}}}));
}

TEST(Executable, UnusedResultsAndInputs) {
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        (void)exp(x[1]);
        const Arrays parts = split(x[0], {10, 23}, 0);
        return Arrays{parts[1] * 2.0};
      },
      Avals{kVector, kVector, kVector}));
}

TEST(Executable, ZeroSizesAndScalars) {
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        return Arrays{tanh(x[0]) + 1.0, sum(x[0], {0}), exp(x[1]), concatenate(Arrays{x[0], x[0]}, 0)};
      },
      Avals{{Dtype::F64, {0, 4}}, {Dtype::F64, {}}}));
  expect_as_eager(make_jaxpr([](ArraySpan) { return Arrays{full({0}, 1.0, Dtype::F32)}; }, Avals{}));
}

TEST(Executable, NestedProgramsHaveMemoryOfTheirOwn) {
  expect_as_eager(make_jaxpr(
      [](ArraySpan x) {
        const Array w = sin(x[0]);
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan t) {
              const Array h = tanh(c[0] * w + t[0]);
              return ScanResult{{h}, {h * h}};
            },
            {x[0]}, {x[1]});
        return Arrays{r.carry[0], r.ys[0], w};
      },
      Avals{kVector, {Dtype::F64, {6, 33}}}));
}

TEST(Executable, EmptyProgram) {
  const Executable exe(make_jaxpr([](ArraySpan) { return Arrays{}; }, Avals{}));
  EXPECT_EQ(exe.steps(), 0U);
  EXPECT_TRUE(exe(Tensors{}).empty());
}

TEST(Executable, RandomProgramsAreAsEager) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    auto pick = [&](std::size_t n) {
      return static_cast<std::size_t>(random.uniform(0.0, static_cast<double>(n)));
    };
    const ClosedJaxpr program = make_jaxpr(
        [&](ArraySpan x) {
          Arrays values(x.begin(), x.end());
          for (int i = 0; i < 30; ++i) {
            const Array a = values[pick(values.size())], b = values[pick(values.size())];
            switch (pick(7)) {
              case 0:
                values.push_back(a + b);
                break;
              case 1:
                values.push_back(tanh(a));
                break;
              case 2:
                values.push_back(a * b);
                break;
              case 3:
                values.push_back(where(a > b, a, b));
                break;
              case 4:
                values.push_back(rev(a, {0}));
                break;
              case 5:
                values.push_back(broadcast_to(sum(a, {1}, true), a.shape()));
                break;
              default:
                values.push_back(a - 0.5);
                break;
            }
          }
          Arrays outs;
          for (int i = 0; i < 5; ++i) outs.push_back(values[pick(values.size())]);
          return outs;
        },
        Avals{{Dtype::F64, {4, 5}}, {Dtype::F64, {4, 5}}});
    expect_as_eager(program);
    const Executable exe(program);
    std::size_t all = 0;
    for (const Eqn& e : program.jaxpr.eqns)
      all += (e.out[0].aval.bytes() + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
    EXPECT_LE(exe.arena_bytes(), all + 4096) << "seed " << seed;
  }
}

TEST(Executable, BareRunWritesWhereItIsTold) {
  const Executable exe(make_jaxpr(
      [](ArraySpan x) {
        return Arrays{x[0] * 2.0, x[0]};
      },
      Avals{{Dtype::F64, {2}}}));
  const double x[] = {1.0, -3.0};
  double y[2] = {}, z[2] = {};
  const void* in[] = {x};
  void* out[] = {y, z};
  exe.run(in, out);
  EXPECT_EQ(y[0], 2.0);
  EXPECT_EQ(y[1], -6.0);
  EXPECT_EQ(z[1], -3.0);
}

TEST(Executable, MovesKeepTheProgram) {
  Executable a(chain(3));
  const Tensors args = random_args(a.program(), 1);
  const Tensors expected = a(args);
  Executable b(std::move(a));
  EXPECT_EQ(b(args), expected);
  Executable c(chain(1));
  c = std::move(b);
  EXPECT_EQ(c(args), expected);
}

TEST(Executable, WrongArgumentsAreNamed) {
  const Executable exe(chain(1));
  const Tensor x = Tensor::zeros(kVector);
  EXPECT_THROW(exe(Tensors{x}), ValueError);
  EXPECT_THROW(exe(Tensors{x, Tensor::zeros({Dtype::F32, {33}})}), TypeError);
  EXPECT_THROW(exe(Tensors{x, Tensor()}), TypeError);
  const auto longer = [&] { exe(Tensors{x, Tensor::zeros({Dtype::F64, {34}})}); };
  for (const char* phrase : {"argument 1", "f64[34]", "f64[33]"}) expect_error<ValueError>(phrase, longer);
}

TEST(Executable, MalformedProgramsAreRefused) {
  Jaxpr jaxpr;
  jaxpr.invars = {fresh_var(kVector)};
  jaxpr.outs = {fresh_var(kVector)};  // defined nowhere
  EXPECT_THROW(Executable(ClosedJaxpr{jaxpr, {}}), CompilationError);
}

TEST(Executable, BitsDoNotDependOnTheNumberOfThreads) {
  const ClosedJaxpr program = make_jaxpr(
      [](ArraySpan x) {
        const Array h = tanh(matmul_plain(x[0], x[1]));
        return Arrays{h, sum(h), sum(exp(h), {0}), matmul_plain(h, transpose(x[1]))};
      },
      Avals{{Dtype::F32, {130, 257}}, {Dtype::F32, {257, 190}}});
  const Tensors args = random_args(program, 9);
  const int before = default_pool().size();
  set_num_threads(1);
  const Tensors one = evaluate(program, args);
  set_num_threads(2);
  const Tensors two = evaluate(program, args);
  set_num_threads(before);
  EXPECT_EQ(one, two);
}

TEST(Evaluate, IsMakeAndRun) {
  const ClosedJaxpr program = chain(2);
  const Tensors args = random_args(program, 2);
  EXPECT_EQ(evaluate(program, args), Executable(program)(args));
}

TEST(ArenaPlanner, ReusesTheSmallestRangeThatFitsAndJoinsNeighbours) {
  ArenaPlanner p;
  const std::size_t a = p.take(64), b = p.take(128), c = p.take(64), d = p.take(1);
  EXPECT_EQ(p.high_water(), 320U);
  p.give(b, 128);
  p.give(a, 64);
  EXPECT_EQ(p.take(192), a);  // a and b together
  p.give(d, 1);
  EXPECT_EQ(p.take(64), d);
  p.give(c, 64);
  EXPECT_EQ(p.take(0), c);
  EXPECT_EQ(p.high_water(), 320U);
}

}  // namespace
}  // namespace etrace
