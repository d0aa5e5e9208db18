// Whole programs by emitted code and by the interpreter: control flow, arguments that are replaced in place,
// views of all kinds, and what learners run.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "base/interruptible.h"
#include "etrace/etrace.h"
#include "etrace/host.h"
#include "native/toolchain.h"
#include "runtime/thread_pool.h"
#include "support/native.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

Tensor numbers(const Shape& shape, std::uint64_t seed, Dtype dtype = Dtype::F32) {
  return convert(random::uniform(random::key(seed), shape, Dtype::F64, -1.5, 1.5), dtype).tensor();
}

// The same bits on both engines, run twice.
void expect_same(const Program& p, const Tensors& args) {
  const Tensors found = run_native(p, args), expected = run_interpreter(p, args);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == expected[i]) << p.results[i].name << " " << to_string(found[i].aval()) << " is "
                                         << distance(found[i], expected[i]) << " away";
}
void expect_same(const Function& f, const Tensors& args, const std::vector<Alias>& aliases = {}) {
  Avals in;
  for (const Tensor& t : args) in.push_back(t.aval());
  expect_same(as_program(make_jaxpr(f, in), aliases), args);
}

// Between two steps a loop asks whether it is to end, where nothing outlives the run; what ends it comes out
// as it was thrown, and the program runs again.
TEST(NativePrograms, LoopsEndWhenTheyAreTold) {
  struct Stop : std::exception {};
  const Function counts = [](ArraySpan x) {
    const Array rounds = x[0], start = x[1];
    return while_loop([&](ArraySpan c) { return less(c[0], rounds); },
                      [](ArraySpan c) {
                        const ScanBody step = [](ArraySpan v, ArraySpan) -> ScanResult {
                          return {{v[0] * 0.5 + 1.0}, {}};
                        };
                        return Arrays{c[0] + 1.0, scan(step, {c[1]}, {}, {.length = 3}).carry[0]};
                      },
                      {zeros({}, Dtype::F32), start});
  };
  const Tensor few = Tensor::full({Dtype::F32, {}}, 5.0), many = Tensor::full({Dtype::F32, {}}, 1e18),
               start = numbers({7}, 1);
  const auto code =
      find_backend("native").compile(as_program(make_jaxpr(counts, Avals{few.aval(), start.aval()})));
  Tensors out{Tensor::zeros(few.aval()), Tensor::zeros(start.aval())};
  int asked = 0;
  const auto run = [&](const Tensor& rounds) {
    const std::array<const void*, 2> in{rounds.bytes(), start.bytes()};
    const std::array<void*, 2> results{out[0].writable(), out[1].writable()};
    code->run(in.data(), results.data());
    code->wait();
  };
  std::thread([&] {  // whose clock begins here
    set_interrupt_hook([&] {
      if (++asked == 2) throw Stop();
    });
    run(few);
    EXPECT_EQ(asked, 0) << "nobody said that it may end";
    const Interruptible may_end;
    EXPECT_THROW(run(many), Stop);
    EXPECT_EQ(asked, 2);
    run(few);
    set_interrupt_hook({});
  })
      .join();
  EXPECT_EQ(Array(out[0]).item<double>(), 5.0);
  expect_same(counts, {few, start});
}

TEST(NativePrograms, ViewsOfViews) {
  expect_same(
      [](ArraySpan x) {
        const Array a = transpose(x[0] + 1.0, {1, 0, 2});                     // [4,3,6]
        const Array b = reshape(a, {12, 6});                                  // of a transposed value
        const Array c = reshape(transpose(x[1], {1, 0}), {2, 3, 3, 4});       // splits a transposed axis
        const Array d = slice(rev(x[1], {1}), {2, 0}, {11, 6}, {3, 2});       // [3,3]
        const Array e = broadcast_in_dim(sum(x[0], {0, 2}), {5, 4, 2}, {1});  // of a fold
        const Array f = concatenate(Arrays{b, b * 2.0, x[1]}, 0);             // [36,6]
        const Array g = reshape(transpose(f, {1, 0}), {6, 4, 9});
        const Array h = pad(d, 7.0, {{1, 2, 0}, {0, 1, 1}});
        return Arrays{
            a, b, c * 2.0, d, e, f, sum(g, {1}), h, stack(Arrays{d, d + 1.0}, 1), reshape(g, {216}) - 1.0};
      },
      {numbers({3, 4, 6}, 1), numbers({12, 6}, 2)});
}

// Truth values about whole arrays, joined from loops of all forms: plain, with threads, over time, with
// folds.
TEST(NativePrograms, WhatHoldsEverywhereOrSomewhere) {
  const auto votes = [](ArraySpan x) {
    const auto finite = [](const Array& a) { return all(is_finite(a)); };
    const Array large = x[0] / x[0], turned = transpose(x[0], {1, 0}), row = sum(large, {0});
    const ScanResult r = scan(
        [&](ArraySpan carry, ArraySpan now) -> ScanResult {
          const Array next = 0.5 * carry[0] + now[0] / now[0];
          return {{next}, {exp(next), finite(next)}};
        },
        {row}, {x[0]});
    return Arrays{finite(large),
                  any(turned > 1.0),
                  all(turned < 1.4),
                  finite(row),
                  finite(r.ys[0] * x[0]),
                  r.ys[1],
                  r.carry[0],
                  row,
                  select_n(finite(large), Arrays{x[1], x[1] + 1.0})};
  };
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const std::int64_t zero : {-1, 0, 77, 700 * 300 - 1}) {
      std::vector<double> values = numbers({700, 300}, 3, Dtype::F64).to_doubles();
      if (zero >= 0) values[static_cast<std::size_t>(zero)] = 0.0;  // 0/0
      expect_same(votes,
                  {convert(Array(Tensor::of(values, {700, 300})), dtype).tensor(), numbers({9}, 4, dtype)},
                  {{8, 1}});
    }
}

// The order of a sum follows from its operand's shape, whatever the sum is fused with.
TEST(NativePrograms, SumsHaveOneOrder) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    expect_same(
        [](ArraySpan x) {
          const Array a = x[0], row = x[1], wide = x[2];         // [33,37], [37], [7,3,700]
          const Array spread = a + broadcast_to(row, {33, 37});  // a line of two axes, once fused
          const Array turned = transpose(a, {1, 0});             // the same numbers in another order
          const Array long_line = wide * sum(wide, {2}, true);   // a line of several blocks
          const Array pairs = reshape(wide, {7350, 2});          // columns that are written out
          const Array shuffled = reshape(transpose(wide, {1, 0, 2}), {3, 7, 700});
          return Arrays{sum(spread),
                        sum(spread * spread, {0}),
                        sum(a),
                        sum(turned),
                        sum(a, {1}),
                        sum(turned, {1}),
                        sum(long_line),
                        sum(long_line, {0, 2}),
                        sum(shuffled, {0, 2}),
                        sum(pairs, {0}),
                        prod(pairs * 1e-3 + 1.0, {0}),
                        mean(broadcast_to(row, {5, 4, 37}) * 0.1, {0, 2}),
                        sum(reshape(a, {11, 3, 37}), {0, 2}),
                        max(spread, {0, 1}) - sum(slice_axis(a, 0, 0, 1), {0})};
        },
        {numbers({33, 37}, 1, dtype), numbers({37}, 2, dtype), numbers({7, 3, 700}, 3, dtype)});
}

// Products side by side with sums and differences, as in the product of complex numbers: gcc would make one
// instruction of them that does not round in between.
TEST(NativePrograms, ProductsAreRoundedBeforeTheyAreAdded) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    expect_same(
        [](ArraySpan x) {
          const Array re = x[0] * x[2] - x[1] * x[3], im = x[0] * x[3] + x[1] * x[2];
          const Array scaled = stack(Arrays{exp(x[0]) - x[1], exp(x[0]) + x[1]}, 1);
          return Arrays{stack(Arrays{re, im}, 1), scaled};
        },
        {numbers({130}, 1, dtype), numbers({130}, 2, dtype), numbers({130}, 3, dtype),
         numbers({130}, 4, dtype)});
}

// What is zero in an operand is left out by one engine and not by the other, and a product of one term is a
// loop: results that underflow are 0 and not −0 on both.
TEST(NativePrograms, ProductsAreNeverMinusZero) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const std::int64_t rows : {1, 3, 20}) {
      const Array spikes = convert(random::uniform(random::key(1), {4, rows, 70}) < 0.1, dtype);
      const double tiny = dtype == Dtype::F32 ? 1e-30 : 1e-200;
      expect_same(
          [](ArraySpan x) {
            const ScanResult r = scan(
                [&](ArraySpan c, ArraySpan in) -> ScanResult {
                  const Array y = matmul_plain(in[0], x[1]);
                  return {{c[0] + y}, {y}};
                },
                {x[2]}, {x[0]});
            return Arrays{r.ys[0], outer(x[3], x[4])};
          },
          {(spikes * tiny).tensor(), (Array(numbers({70, 65}, 2, dtype)) * tiny).tensor(),
           numbers({rows, 65}, 3, dtype), (Array(numbers({9}, 4, dtype)) * tiny).tensor(),
           (Array(numbers({80}, 5, dtype)) * tiny).tensor()});
    }
}

// Spikes of few samples, step by step, through a matrix that stays: zeros are left out from the second step
// on. Where the matrix is not finite, they are not: 0·∞ is NaN.
TEST(NativePrograms, SpikesOfFewSamples) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const std::int64_t samples : {1, 3})
      for (const double rate : {0.0, 0.1, 0.9})
        for (const bool finite : {true, false}) {
          Array weights = numbers({130, 97}, 2, dtype);
          if (!finite)
            weights = where(reshape(arange(130 * 97, Dtype::F32), {130, 97}) < 1.0,
                            full({130, 97}, std::numeric_limits<double>::infinity(), dtype), weights);
          const Array draw = random::uniform(random::key(3), {9, samples, 130});
          expect_same(
              [](ArraySpan x) {
                const ScanResult r = scan(
                    [&](ArraySpan c, ArraySpan in) -> ScanResult {
                      const Array h = c[0] * 0.5 + matmul_plain(in[0], x[1]);
                      return {{h}, {h}};
                    },
                    {x[2]}, {x[0]});
                return Arrays{r.ys[0]};
              },
              {convert(draw < rate, dtype).tensor(), weights.tensor(), numbers({samples, 97}, 4, dtype)});
        }
}

// [x, h]·W as it is written, and as partial products: before the loop, in it, in place or not.
TEST(NativePrograms, ProductsWithConcatenations) {
  const auto lean_is_same = [](const Function& f, const Tensors& args) {
    Avals in;
    for (const Tensor& t : args) in.push_back(t.aval());
    const Program written = as_program(make_jaxpr(f, in)),
                  lean = as_program(simplify(written.jaxpr).to_run());
    const Tensors expected = run_interpreter(written, args);
    for (const Tensors& found :
         {run_native(written, args), run_native(lean, args), run_interpreter(lean, args)})
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i] == expected[i]) << i;
  };
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const std::int64_t samples : {1, 3, 40}) {
      SCOPED_TRACE(samples);
      lean_is_same(
          [](ArraySpan a) {
            const ScanResult r = scan(
                [&](ArraySpan c, ArraySpan x) -> ScanResult {
                  const Array joined = concatenate(Arrays{x[0], x[1], c[0]}, 1);
                  const Array h = tanh(matmul(joined, a[3], a[4]));
                  // Spikes, and parts that only the loop knows.
                  const Array s = convert(greater(h, 0.6), h.dtype());
                  const Array y = matmul_plain(concatenate(Arrays{s, c[1], x[1]}, 1), a[5]);
                  return {{h, y * 0.5}, {joined, y}};
                },
                {a[0], a[0] * 2.0}, {a[1], a[2]});
            Arrays out = r.carry;
            out.insert(out.end(), r.ys.begin(), r.ys.end());
            return out;
          },
          {numbers({samples, 70}, 1, dtype), numbers({5, samples, 9}, 2, dtype),
           numbers({5, samples, 66}, 3, dtype), numbers({145, 70}, 4, dtype), numbers({70}, 5, dtype),
           numbers({206, 70}, 6, dtype)});
    }
  // Matrices side by side, a transposed factor, a factor on the left, integers.
  lean_is_same(
      [](ArraySpan a) {
        const Array joined = concatenate(Arrays{a[0], a[1]}, 2);
        const Array turned = concatenate(Arrays{transpose(a[0], {1, 2, 0}), transpose(a[1], {1, 2, 0})}, 1);
        return Arrays{dot_general(joined, a[2], {{2}, {1}, {0}, {0}}),
                      dot_general(a[2], turned, {{1}, {1}, {0}, {2}})};
      },
      {numbers({2, 3, 5}, 1), numbers({2, 3, 4}, 2), numbers({2, 9, 7}, 3)});
  lean_is_same(
      [](ArraySpan a) {
        return Arrays{matmul_plain(concatenate(Arrays{a[0], a[1]}, 1), a[2])};
      },
      {reshape(arange(15) - 7, {3, 5}).tensor(), reshape(arange(12), {3, 4}).tensor(),
       reshape(arange(63) * 3, {9, 7}).tensor()});
}

// Each sum needs the whole of the one before: they cannot share a loop over the axis that they sum over.
// Sums of one term are emitted as loops, the same to the sign of zero, for NaN and infinities.
TEST(NativePrograms, ProductsOfOneTerm) {
  const double values[] = {1.5, -2.0, 0.0, -0.0, 1e30, kInf, -kInf, kNaN, 1e-30, -3.0};
  for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
    const auto some = [&](const Shape& shape, std::size_t first) {
      std::vector<double> list;
      for (std::int64_t i = 0; i < shape.size(); ++i)
        list.push_back(values[(first + static_cast<std::size_t>(i)) % std::size(values)]);
      return array(list, shape, dtype).tensor();
    };
    expect_same(
        [](ArraySpan x) {
          const Array outer = matmul_plain(transpose(x[0], {1, 0}), x[1]);
          return Arrays{outer, outer * 2.0 - x[4], dot_general(x[2], x[3], DotDims{{1}, {2}, {0, 2}, {1, 0}}),
                        dot_general(x[2], x[3], DotDims{{}, {}, {0}, {1}})};
        },
        {some({1, 7}, 0), some({1, 10}, 3), some({3, 1, 4, 2}, 1), some({4, 3, 1}, 2), some({7, 10}, 5)});
  }
}

TEST(NativePrograms, FoldsThatFollowFolds) {
  expect_same(
      [](ArraySpan x) {
        const Array y = x[0] + x[1];
        const Array shifted = y - max(y, {2}, true);
        const Array logs = log(sum(exp(shifted), {2}, true));
        const Array loss = -sum((shifted - logs) * x[0], {2});
        return Arrays{loss, mean(loss), shifted - logs};
      },
      {numbers({3, 8, 10}, 1), numbers({10}, 2)});
}

TEST(NativePrograms, ResultsThatAreArgumentsConstantsAndEachOther) {
  const Array table = numbers({4}, 9);
  expect_same(
      [&](ArraySpan x) {
        const Array y = x[0] * 2.0;
        return Arrays{x[0], y, y, table, full({3}, 2.5, Dtype::F32), transpose(x[1], {1, 0}), x[1] + 1.0};
      },
      {numbers({5}, 1), numbers({2, 3}, 2)});
}

TEST(NativePrograms, ArgumentsAreReplacedInPlace) {
  // Swapped, moved about within itself, read by a later result, left alone.
  expect_same(
      [](ArraySpan x) {
        return Arrays{x[1], x[0], transpose(x[2], {1, 0}), sum(x[0], {0}) + x[3], x[3] * x[0], x[4]};
      },
      {numbers({6}, 1), numbers({6}, 2), numbers({3, 3}, 3), numbers({6}, 4), numbers({2}, 5)},
      {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {5, 4}});
}

TEST(NativePrograms, ScansWithCarriesOfEveryKind) {
  for (const bool reverse : {false, true})
    expect_same(
        [&](ArraySpan x) {
          const auto body = [&](ArraySpan c, ArraySpan in) -> ScanResult {
            const Array h = tanh(matmul_plain(c[0], x[3]) + in[0]);  // needs the old h whole
            const Array turned = transpose(c[1], {1, 0}) * 0.9;      // cannot be in place
            return {{h, turned + 0.1, c[3], c[2], c[4] + 1}, {c[0], sum(h, {1}), c[1], in[1]}};
          };
          const ScanResult r = scan(body, {x[0], x[1], x[2], x[2] * 2.0, full({}, 0, Dtype::I32)},
                                    {x[4], transpose(x[5], {1, 0})}, {.reverse = reverse});
          Arrays out = r.carry;
          out.insert(out.end(), r.ys.begin(), r.ys.end());
          return out;
        },
        {numbers({2, 5}, 1), numbers({3, 3}, 2), numbers({4}, 3), numbers({5, 5}, 4), numbers({7, 2, 5}, 5),
         numbers({3, 7}, 6)},
        {{0, 0}, {1, 1}});
}

// Positions that a short vector axis cannot hold are walked in stretches: whole ones, part of one, less than
// one; alone and cut for threads.
TEST(NativePrograms, RecurrencesAlongAShortAxis) {
  for (const std::int64_t positions : {3, 70, 700, 5000})
    for (const std::int64_t channels : {1, 2, 8, 50})
      for (const bool reverse : {false, true})
        expect_same(
            [&](ArraySpan x) {
              const ScanResult r = scan(
                  [&](ArraySpan c, ArraySpan in) -> ScanResult {
                    const Array bias = broadcast_in_dim(x[2], {positions, channels}, {1});
                    const Array scale = broadcast_in_dim(x[3], {positions, channels}, {0});
                    const Array v = tanh(c[0] * 0.9) * scale + in[0] + bias;
                    return {{v, c[1] * 0.5 + v}, {v, c[1]}};
                  },
                  {x[0], x[0]}, {x[1]}, {.reverse = reverse});
              return Arrays{r.carry[0], r.carry[1], r.ys[0] + 1.0, r.ys[1]};
            },
            {numbers({positions, channels}, 1), numbers({5, positions, channels}, 2), numbers({channels}, 3),
             numbers({positions}, 4)},
            {{0, 0}});
}

TEST(NativePrograms, NestedLoopsBranchesAndShortScans) {
  expect_same(
      [](ArraySpan x) {
        const auto inner = [&](ArraySpan c, ArraySpan in) -> ScanResult {
          return {{c[0] * 0.5 + in[0]}, {c[0] * in[0]}};
        };
        const auto outer = [&](ArraySpan c, ArraySpan in) -> ScanResult {
          const ScanResult r = scan(inner, {c[0]}, {in[0]});
          const Arrays chosen = cond(
              less(sum(r.carry[0]), 0.0),
              [](ArraySpan a) {
                return Arrays{a[0] * 2.0, a[0]};
              },
              [](ArraySpan a) {
                return Arrays{a[0], a[0] - 1.0};
              },
              {r.carry[0]});
          return {{chosen[0]}, {chosen[1], sum(r.ys[0], {0})}};
        };
        const ScanResult r = scan(outer, {x[0]}, {x[1]});
        const Arrays w = while_loop([](ArraySpan a) { return less(sum(a[0]), 40.0); },
                                    [](ArraySpan a) {
                                      return Arrays{abs(a[0]) * 1.5 + 1.0, a[1] + 1};
                                    },
                                    {x[0], full({}, 0, Dtype::I32)});
        const ScanResult once = scan(inner, {x[0]}, {expand_dims(x[0], {0})});
        const ScanResult none = scan(inner, {x[0]}, {slice_axis(expand_dims(x[0], {0}), 0, 0, 0)});
        return Arrays{r.carry[0],    r.ys[0],    r.ys[1],       w[0],      w[1],
                      once.carry[0], once.ys[0], none.carry[0], none.ys[0]};
      },
      {numbers({3}, 1), numbers({4, 5, 3}, 2)});
}

TEST(NativePrograms, LongFoldsKeepTheirOrder) {
  for (const Dtype t : {Dtype::F32, Dtype::F64})
    expect_same(
        [](ArraySpan x) {
          return Arrays{sum(x[0] * x[0]),  sum(x[1], {0}),
                        sum(x[1], {1}),    sum(tanh(x[1]), {0, 2}),
                        sum(x[1], {2}),    sum(exp(x[1]), {1, 2}),
                        max(x[1], {0, 1}), prod(x[1], {0}),
                        sum(x[0]) * x[0],  sum(transpose(x[1], {2, 1, 0}), {1})};
        },
        {numbers({9001}, 1, t), numbers({23, 19, 37}, 2, t)});
}

// Large enough for threads: the bits do not depend on their number, nor on the compiler.
TEST(NativePrograms, ThreadsAndCompilersGiveTheSameBits) {
  const Tensors args{numbers({512, 300}, 1), numbers({300}, 2), numbers({9, 512, 300}, 3)};
  Avals in;
  for (const Tensor& t : args) in.push_back(t.aval());
  const Program p = as_program(make_jaxpr(
      [](ArraySpan x) {
        const Array h = tanh(x[0] * broadcast_to(x[1], {512, 300}));
        const ScanResult r = scan(
            [](ArraySpan c, ArraySpan y) -> ScanResult {
              return {{logistic(c[0]) + y[0] * 0.5}, {exp(c[0] * 0.1)}};
            },
            {h}, {x[2]});
        return Arrays{h,          sum(h, {0}),          sum(h, {1}),
                      r.carry[0], sum(r.ys[0], {0, 2}), matmul_plain(h, transpose(h, {1, 0}))};
      },
      in));
  set_num_threads(1);
  const Tensors expected = run_native(p, args);
  for (const int threads : {2, 7}) {
    set_num_threads(threads);
    const Tensors found = run_native(p, args);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i] == expected[i]) << i;
  }
  for (const char* cc : {"gcc", "clang"}) {
    ::setenv("CC", cc, 1);
    std::string reason;
    if (!native::find_compiler(reason)) continue;
    const Tensors found = run_native(p, args);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i] == expected[i]) << cc << " " << i;
  }
  ::unsetenv("CC");
}

// Learners ------------------------------------------------------------------------------------------------
struct Case {
  const char *model, *rule;
  std::int64_t batch, steps;
};
class NativeLearner : public ::testing::TestWithParam<Case> {};

TEST_P(NativeLearner, RunsAsTheInterpreterDoes) {
  const auto& [model, rule, batch, steps] = GetParam();
  const bool two_layers = std::string(model).starts_with("two_layer");
  const std::vector<std::int64_t> sizes = two_layers ? Dims{7, 20, 11, 3} : Dims{7, 20, 3};
  const ReadyModel ready = make_model(model, {.sizes = sizes, .batch = batch});
  RuleOptions options;
  if (std::string(rule) == "pp_prop") options.set("decay_or_rank", 0.9);
  const Learner learner =
      compile(*ready.module, rule, ready.example, {.batch_size = batch, .execution_window = steps}, options);
  const StepFunction f = [](StepCall& m, ArraySpan s) -> LossAndAux { return {loss::mse(m(s[0]), s[1])}; };
  const Avals slices{{Dtype::F32, {batch, 7}}, {Dtype::F32, {batch, 3}}};
  const LearnerPlan plan = learner.plan(f, slices);
  const ClosedJaxpr& jaxpr = plan.at(steps == 1 ? "step" : "window").jaxpr;
  Tensors args;
  const Avals in = jaxpr.in_avals();
  for (std::size_t i = 0; i < in.size(); ++i)
    args.push_back(is_floating(in[i].dtype) ? numbers(in[i].shape, 100 + i, in[i].dtype)
                                            : Tensor::full(in[i], std::int64_t{3}));
  Program p = as_program(jaxpr);
  p.name = std::string(model) + "." + rule;
  const Tensors found = run_native(p, args), expected = run_interpreter(p, args);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == expected[i]) << "result " << i << " " << to_string(found[i].aval()) << " is "
                                         << distance(found[i], expected[i]) << " away";
}

INSTANTIATE_TEST_SUITE_P(Programs, NativeLearner,
                         ::testing::Values(Case{"rnn", "d_rtrl", 2, 1}, Case{"gru", "d_rtrl", 3, 5},
                                           Case{"lstm", "d_rtrl", 1, 4}, Case{"lif_expon", "pp_prop", 4, 6},
                                           Case{"lif", "d_rtrl", 2, 6},
                                           Case{"two_layer_gru", "pp_prop", 2, 1}),
                         [](const auto& info) {
                           return std::string(info.param.model) + "_" + info.param.rule + "_" +
                                  std::to_string(info.param.steps);
                         });

}  // namespace
}  // namespace etrace::testing
