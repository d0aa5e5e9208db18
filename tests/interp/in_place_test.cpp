// Results that replace arguments: the values are those of the equations one by one, whether or not the two
// lie in one place, and nothing is copied that needs no copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "etrace/control.h"
#include "etrace/interp.h"
#include "etrace/ops/index.h"
#include "etrace/ops/numpy.h"
#include "etrace/ops/trace_window.h"
#include "etrace/transform.h"
#include "runtime/thread_pool.h"
#include "support/allocations.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using testing::difference;
using testing::Random;

const Aval kBlock{Dtype::F64, {64, 16}};

// Buffers of one run: aliased results lie where their arguments lie.
class Bound {
 public:
  Bound(const Executable& exe, const std::vector<Alias>& aliases, std::uint64_t seed) : exe_(exe) {
    Random random(seed);
    for (const Aval& a : exe.program().in_avals()) {
      args_.push_back(random.tensor(a));
      buffers_.push_back(Tensor::copy_of(a, args_.back().bytes()));
    }
    for (const Aval& a : exe.program().out_avals()) results_.push_back(Tensor::zeros(a));
    for (const Alias& a : aliases) results_[a.result] = buffers_[a.argument];
    for (const Tensor& t : buffers_) in_.push_back(t.bytes());
    for (Tensor& t : results_) out_.push_back(t.writable());
  }
  void run() const { exe_.run(in_.data(), out_.data()); }
  const Tensors& arguments() const { return args_; }  // as they were
  const Tensors& results() const { return results_; }

 private:
  const Executable& exe_;
  Tensors args_, buffers_, results_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

void expect_as_eager_in_place(const ClosedJaxpr& program, const std::vector<Alias>& aliases) {
  const Executable exe(program, aliases);
  for (const bool together : {true, false}) {
    Bound bound(exe, together ? aliases : std::vector<Alias>{}, 7);
    const Tensors expected = to_tensors(eval_jaxpr(program, to_arrays(bound.arguments())));
    bound.run();
    const auto d = difference(bound.results(), expected, 0.0);
    EXPECT_FALSE(d) << *d << (together ? " in place" : " apart") << "\n" << to_string(program);
  }
}

ClosedJaxpr of_two(const std::function<Arrays(ArraySpan)>& f) { return make_jaxpr(f, Avals{kBlock, kBlock}); }

TEST(InPlace, ElementwiseChainsNeedNoMemory) {
  const ClosedJaxpr program = of_two([](ArraySpan x) { return Arrays{tanh(x[0] * 0.5 + x[1])}; });
  EXPECT_EQ(Executable(program, {{0, 0}}).arena_bytes(), 0U);
  expect_as_eager_in_place(program, {{0, 0}});
}

TEST(InPlace, TheSecondOperandToo) {
  const ClosedJaxpr program = of_two([](ArraySpan x) { return Arrays{x[1] - x[0], x[0] * x[0]}; });
  EXPECT_EQ(Executable(program, {{0, 1}, {1, 0}}).arena_bytes(), 0U);
  expect_as_eager_in_place(program, {{0, 1}, {1, 0}});
}

TEST(InPlace, LaterReadsOfTheOldValueAreMovedBeforeTheWrite) {
  const ClosedJaxpr program = of_two([](ArraySpan x) {
    const Array next = x[0] * 0.5 + x[1];
    return Arrays{next, exp(x[0]), sum(x[0]) * 2.0};
  });
  EXPECT_LT(Executable(program, {{0, 0}}).arena_bytes(), kBlock.bytes());
  expect_as_eager_in_place(program, {{0, 0}});
}

TEST(InPlace, ReadsThatNeedTheNewValueKeepTheOldOne) {
  const ClosedJaxpr program = of_two([](ArraySpan x) {
    const Array next = tanh(x[0] + x[1]);
    return Arrays{next, next - x[0]};  // how far it moved
  });
  EXPECT_GE(Executable(program, {{0, 0}}).arena_bytes(), kBlock.bytes());
  expect_as_eager_in_place(program, {{0, 0}});
}

TEST(InPlace, TwoThatReadEachOther) {
  expect_as_eager_in_place(of_two([](ArraySpan x) {
                             return Arrays{x[0] + x[1], x[0] * x[1]};
                           }),
                           {{0, 0}, {1, 1}});
  expect_as_eager_in_place(of_two([](ArraySpan x) {
                             return Arrays{x[0] + 1.0, x[1] + x[0]};
                           }),
                           {{0, 0}, {1, 1}});
}

TEST(InPlace, SwapsShiftsAndCircles) {
  expect_as_eager_in_place(of_two([](ArraySpan x) { return Arrays{x[1], x[0]}; }), {{0, 0}, {1, 1}});
  const Avals four{kBlock, kBlock, kBlock, kBlock};
  const std::vector<Alias> each{{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  expect_as_eager_in_place(make_jaxpr(
                               [](ArraySpan x) {
                                 return Arrays{x[1], x[2], x[3], x[0]};
                               },
                               four),
                           each);
  expect_as_eager_in_place(make_jaxpr(
                               [](ArraySpan x) {
                                 return Arrays{exp(x[3]), x[0], x[1], x[2]};
                               },
                               four),
                           each);
  expect_as_eager_in_place(make_jaxpr(
                               [](ArraySpan x) {
                                 return Arrays{x[2], x[0], x[1], x[1]};
                               },
                               four),
                           each);
  expect_as_eager_in_place(make_jaxpr(
                               [](ArraySpan x) {
                                 return Arrays{x[1], x[0], x[3] * x[0], x[2], x[3]};
                               },
                               four),
                           each);
}

TEST(InPlace, UnchangedArgumentsConstantsAndDuplicates) {
  const Array w = Random(3).tensor(kBlock);
  const ClosedJaxpr same = of_two([](ArraySpan x) { return Arrays{x[0], x[1]}; });
  EXPECT_EQ(Executable(same, {{0, 0}, {1, 1}}).arena_bytes(), 0U);
  expect_as_eager_in_place(same, {{0, 0}, {1, 1}});
  expect_as_eager_in_place(of_two([&](ArraySpan x) {
                             return Arrays{w, x[0] * x[1], x[0]};
                           }),
                           {{0, 0}, {1, 1}});
  expect_as_eager_in_place(of_two([&](ArraySpan x) {
                             const Array y = x[0] * w;
                             return Arrays{y, y, y, x[1]};
                           }),
                           {{0, 1}, {1, 0}});
}

TEST(InPlace, ViewsAreNoCopies) {
  const ClosedJaxpr program = of_two([](ArraySpan x) {
    const Array flat = reshape(x[0], {1024}) * 2.0;
    return Arrays{reshape(flat, {64, 16}) + x[1], reshape(x[1], {16, 64})};
  });
  const Executable exe(program, {{0, 0}});
  EXPECT_EQ(exe.steps(), 2U);
  EXPECT_EQ(exe.arena_bytes(), 0U);
  expect_as_eager_in_place(program, {{0, 0}});
}

TEST(InPlace, KernelsThatReadElsewhereDoNotWriteOverTheirOperand) {
  expect_as_eager_in_place(of_two([](ArraySpan x) {
                             return Arrays{rev(x[0], {0}), cumsum(x[1], 0)};
                           }),
                           {{0, 0}, {1, 1}});
  const Aval row{Dtype::F64, {1, 16}};
  const ClosedJaxpr update = make_jaxpr(
      [](ArraySpan x) {
        return Arrays{dynamic_update_slice(x[0], x[1], Arrays{Array(3), Array(0)})};
      },
      Avals{kBlock, row});
  EXPECT_EQ(Executable(update, {{0, 0}}).arena_bytes(), 0U);
  expect_as_eager_in_place(update, {{0, 0}});
}

TEST(InPlace, RandomPrograms) {
  const Aval small{Dtype::F64, {3, 4}};
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const auto pick = [&](std::size_t n) {
      return static_cast<std::size_t>(random.uniform(0.0, static_cast<double>(n)));
    };
    const ClosedJaxpr program = make_jaxpr(
        [&](ArraySpan x) {
          Arrays values(x.begin(), x.end());
          for (int i = 0; i < 14; ++i) {
            const Array a = values[pick(values.size())], b = values[pick(values.size())];
            switch (pick(6)) {
              case 0:
                values.push_back(a - b);
                break;
              case 1:
                values.push_back(tanh(a));
                break;
              case 2:
                values.push_back(where(a > b, a, b));
                break;
              case 3:
                values.push_back(rev(a, {0}));
                break;
              case 4:
                values.push_back(reshape(reshape(a, {12}) * 0.5, {3, 4}));
                break;
              default:
                values.push_back(a * b);
                break;
            }
          }
          Arrays outs;
          for (int i = 0; i < 6; ++i) outs.push_back(values[pick(values.size())]);
          return outs;
        },
        Avals(4, small));
    std::vector<Alias> aliases;
    std::vector<bool> taken(4, false);
    for (std::size_t r = 0; r < 6; ++r)
      if (const std::size_t a = pick(6); a < 4 && !taken[a]) {
        taken[a] = true;
        aliases.push_back({r, a});
      }
    expect_as_eager_in_place(program, aliases);
  }
}

// Loops -----------------------------------------------------------------------------------------------------
ClosedJaxpr decaying_scan(std::int64_t steps) {
  return make_jaxpr(
      [](ArraySpan x) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan t) {
              return ScanResult{{c[0] * 0.9 + t[0], c[1]}, {sum(c[0])}};
            },
            {x[0], x[2]}, {x[1]});
        return Arrays{r.carry[0], r.carry[1], r.ys[0]};
      },
      Avals{kBlock, {Dtype::F64, {steps, 64, 16}}, {Dtype::F64, {3}}});
}

TEST(InPlace, TheCarryOfAScanExistsOnce) {
  for (const std::int64_t steps : {0, 1, 2, 5}) {
    const ClosedJaxpr program = decaying_scan(steps);
    expect_as_eager_in_place(program, {{0, 0}, {1, 2}});
    EXPECT_LT(Executable(program, {{0, 0}, {1, 2}}).arena_bytes(), kBlock.bytes());
  }
}

TEST(InPlace, AScanWhoseStartIsNeededLater) {
  const auto f = [](ArraySpan x) {
    const ScanResult r = scan(
        [&](ArraySpan c, ArraySpan) {
          return ScanResult{{c[0] * 0.9 + x[1], c[1] + c[0], c[0]}, {}};  // the third is the first, one late
        },
        {x[0], x[0], x[1]}, {}, {.length = 3});
    return Arrays{r.carry[0], r.carry[1] + x[0], r.carry[2]};
  };
  expect_as_eager_in_place(of_two(f), {{0, 0}, {1, 1}});
  expect_as_eager_in_place(of_two(f), {{0, 1}, {2, 0}});
}

TEST(InPlace, CarriesThatChangePlaces) {
  const ClosedJaxpr program = of_two([](ArraySpan x) {
    return fori_loop(0, 3,
                     [](const Array&, ArraySpan c) {
                       return Arrays{c[1], rev(c[0], {0})};
                     },
                     {x[0], x[1]});
  });
  expect_as_eager_in_place(program, {{0, 0}, {1, 1}});
}

TEST(InPlace, WhileLoopsAlsoWithoutAnIteration) {
  for (const double limit : {-1.0, 40.0}) {
    const ClosedJaxpr program = of_two([&](ArraySpan x) {
      const Arrays out = while_loop([&](ArraySpan c) { return c[1] < limit; },
                                    [&](ArraySpan c) {
                                      return Arrays{c[0] * 1.1 + x[1], c[1] + 10.0};
                                    },
                                    {x[0], full({}, 0.0, Dtype::F64)});
      return Arrays{out[0], out[1]};
    });
    expect_as_eager_in_place(program, {{0, 0}});
    EXPECT_LT(Executable(program, {{0, 0}}).arena_bytes(), kBlock.bytes());
  }
}

TEST(InPlace, BranchesWriteWhereTheOperandLies) {
  const Aval flag{Dtype::Bool, {}};
  const ClosedJaxpr program = make_jaxpr(
      [](ArraySpan x) {
        return cond(
            x[0], [](ArraySpan o) { return Arrays{o[0] * 0.5 + o[1]}; },
            [](ArraySpan o) { return Arrays{o[0]}; }, {x[1], x[2]});
      },
      Avals{flag, kBlock, kBlock});
  EXPECT_LT(Executable(program, {{0, 1}}).arena_bytes(), kBlock.bytes());
  expect_as_eager_in_place(program, {{0, 1}});
  const Executable exe(program, {{0, 1}});
  for (const bool on : {false, true}) {
    Tensor e = Tensor::full(kBlock, 2.0);
    const Tensor x = Tensor::full(kBlock, 1.0);
    const void* in[] = {&on, e.bytes(), x.bytes()};
    void* out[] = {e.writable()};
    exe.run(in, out);
    EXPECT_EQ(e.data<double>()[5], 2.0);
    EXPECT_EQ(e.data<double>()[1023], 2.0);
  }
}

// The trace of a step exists once ---------------------------------------------------------------------------
ClosedJaxpr trace_step(std::int64_t batch, std::int64_t n) {
  const TracePattern dense{{n, n}, {}, {0, 1}, {}, {1, 0}, {}};
  const auto f32 = [](const Shape& s) { return Aval{Dtype::F32, s}; };
  return make_jaxpr(
      [&](ArraySpan x) {
        TraceWindow w;
        w.trace = x[0], w.transition = tanh(x[1]), w.injection = x[2], w.source = x[3], w.entry = x[4];
        w.weighted = x[5];
        const TraceWindowResult r = trace_window(dense, w);
        return Arrays{r.trace, r.gradient};
      },
      Avals{f32({batch, 1, n, n}), f32({1, 1, batch, n}), f32({1, 1, batch, n}), f32({1, batch, n}),
            f32({1, batch, n}), f32({1, batch, n})});
}

TEST(InPlace, ATraceExistsOnce) {
  const ClosedJaxpr program = trace_step(8, 48);
  const Executable exe(program, {{0, 0}});
  EXPECT_LT(exe.arena_bytes(), program.in_avals()[0].bytes());
  expect_as_eager_in_place(program, {{0, 0}});
}

// Dense weights, one step and several; a list of pairs; slots that share their parameters.
TEST(InPlace, TracesHaveTheSameBitsForAnyNumberOfThreads) {
  struct Case {
    TracePattern pattern;
    std::int64_t positions, elements, batch, states, steps;
  };
  Dims rows, columns;
  for (std::int64_t i = 0; i < 70000; ++i) {
    rows.push_back(i * 7 % 90);
    columns.push_back(i * 11 % 80);
  }
  const std::vector<Case> cases{
      {{{130, 150}, {}, {0, 1}, {}, {1, 0}, {}}, 150, 130, 8, 1, 1},
      {{{130, 150}, {}, {0, 1}, {}, {1, 0}, {}}, 150, 130, 4, 2, 1},
      {{{130, 150}, {}, {0, 1}, {}, {1, 0}, {}}, 150, 130, 4, 3, 2},
      {{{130, 150}, {}, {0, 1}, {}, {1, 0}, {}}, 150, 130, 8, 1, 6},
      {{{130, 150}, {}, {0, 1}, {}, {1, 0}, {}}, 150, 130, 8, 2, 9},
      {{{70000}, {}, {}, columns, {}, rows}, 80, 90, 2, 1, 1},
      {{{12, 90, 70}, {0}, {70, 0, 1}, {}, {90, 1, 0}, {}}, 840, 1080, 2, 1, 1},
  };
  const int before = default_pool().size();
  for (const Case& c : cases) {
    Dims e = c.pattern.slots.to_dims();
    e.insert(e.begin(), {c.batch, c.states});
    const auto f32 = [](const Shape& s) { return Aval{Dtype::F32, s}; };
    const ClosedJaxpr program = make_jaxpr(
        [&](ArraySpan x) {
          TraceWindow w;
          w.trace = x[0], w.transition = x[1], w.injection = x[2], w.source = x[3], w.entry = x[4];
          w.weighted = x[5];
          const TraceWindowResult r = trace_window(c.pattern, w);
          return Arrays{r.trace, r.gradient};
        },
        Avals{f32(Shape(e)), f32({c.states, c.states, c.batch, c.positions}),
              f32({c.steps, c.states, c.batch, c.positions}), f32({c.steps, c.batch, c.elements}),
              f32({c.states, c.batch, c.positions}), f32({c.steps, c.batch, c.positions})});
    std::vector<Tensors> results;
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      const Executable exe(program, {{0, 0}});
      const Bound bound(exe, {{0, 0}}, 5);
      bound.run();
      results.push_back(bound.results());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
  set_num_threads(before);
}

// Threads and memory ----------------------------------------------------------------------------------------
ClosedJaxpr everything() {
  return make_jaxpr(
      [](ArraySpan x) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan t) {
              const Array h = tanh(matmul_plain(c[0], t[0]) + x[1]);
              const Array kept = cond(
                  sum(h) > 0.0, [](ArraySpan o) { return Arrays{o[0] * 0.5}; },
                  [](ArraySpan o) { return Arrays{o[0]}; }, {c[1]})[0];
              return ScanResult{{h, kept + h}, {sum(h, {0})}};
            },
            {x[0], x[1]}, {x[2]});
        return Arrays{r.carry[0], r.carry[1], r.ys[0]};
      },
      Avals{kBlock, kBlock, {Dtype::F64, {4, 16, 16}}});
}

TEST(InPlace, SeveralThreadsRunOneExecutable) {
  const std::vector<Alias> aliases{{0, 0}, {1, 1}};
  const Executable exe(everything(), aliases);
  Bound expected(exe, aliases, 1);
  for (int i = 0; i < 20; ++i) expected.run();
  std::vector<Bound> bound;
  for (int i = 0; i < 4; ++i) bound.emplace_back(exe, aliases, 1);
  std::vector<std::thread> threads;
  for (Bound& b : bound)
    threads.emplace_back([&b] {
      for (int i = 0; i < 20; ++i) b.run();
    });
  for (std::thread& t : threads) t.join();
  for (const Bound& b : bound) EXPECT_EQ(b.results(), expected.results());
}

TEST(InPlace, NothingIsAllocatedInARun) {
  const std::vector<Alias> aliases{{0, 0}, {1, 1}};
  const Executable exe(everything(), aliases);
  const Bound bound(exe, aliases, 1);
  const ClosedJaxpr step = trace_step(8, 48);
  const Executable step_exe(step, {{0, 0}});
  const Bound step_bound(step_exe, {{0, 0}}, 1);
  (void)default_pool();
  const std::size_t before = testing::allocations();
  bound.run();
  step_bound.run();
  EXPECT_EQ(testing::allocations(), before);
}

}  // namespace
}  // namespace etrace
