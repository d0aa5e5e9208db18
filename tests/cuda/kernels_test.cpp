// Kernels at sizes that make them divide their work: long folds, tiles of traces, parts of samples, products
// that no library takes. Against the interpreter, with blocks and threads in both orders.
#include "cuda/played_device.h"
#include "emit/cuda_unit.h"
#include "emit/emit.h"
#include "etrace/etrace.h"
#include "ops/trace_window.h"

namespace etrace {
namespace {

using namespace testing;

class CudaKernels : public PlayedDevice {};

Tensor numbers(const Aval& type, std::uint64_t seed) {
  return convert(random::uniform(random::key(seed), type.shape, Dtype::F64, -1.0, 1.0), type.dtype).tensor();
}

// The kernels that the program has, and whether what it gives agrees.
std::string expect_same(const Program& p, const Tensors& args, double tolerance) {
  const Tensors expected = run_interpreter(p, args), found = run_on_device(p, args);
  ::setenv("PLAYED_BACKWARDS", "1", 1);
  const Tensors backwards = run_on_device(p, args);
  ::unsetenv("PLAYED_BACKWARDS");
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(distance(found[i], expected[i]), tolerance) << i << " " << to_string(expected[i].aval());
    EXPECT_TRUE(same_bits(found[i], backwards[i])) << i;
  }
  std::string names;
  for (const emit::CudaKernel& k : emit::cuda_unit(emit::build(p, emit::find_target("cuda"))).kernels)
    names += k.name + " ";
  return names;
}
std::string expect_same(const Function& f, const Avals& types, double tolerance) {
  Tensors args;
  for (std::size_t i = 0; i < types.size(); ++i) args.push_back(numbers(types[i], i));
  return expect_same(as_program(make_jaxpr(f, types)), args, tolerance);
}

TEST_F(CudaKernels, ElementsAndProducts) {
  expect_same(
      [](ArraySpan x) -> Arrays {
        const Array h = tanh(matmul_plain(x[0], x[1]) + x[2]);
        return {h, matmul_plain(h, x[3]), h * 2.0};
      },
      {{Dtype::F32, {5, 7}}, {Dtype::F32, {7, 33}}, {Dtype::F32, {33}}, {Dtype::F32, {33, 2}}}, 1e-6);
}

// Very many positions: a thread has four of them, in place too.
TEST_F(CudaKernels, ManyElementsPerThread) {
  const Aval type{Dtype::F32, {512, 1024}}, row{Dtype::F32, {1024}};
  Program p = as_program(make_jaxpr(
      [](ArraySpan x) -> Arrays {
        return {x[0] * 0.5 + x[1], where(less(x[0], Array(0.0)), x[1], x[0])};
      },
      Avals{type, row}));
  p.aliases.push_back({0, 0});
  EXPECT_NE(emit::cuda_unit(emit::build(p, emit::find_target("cuda"))).source.find("v0_3 = "),
            std::string::npos);
  expect_same(p, {numbers(type, 1), numbers(row, 2)}, 1e-6);
}

// A row times a small matrix, in both orders of memory, onto nothing and onto something.
TEST_F(CudaKernels, RowsTimesMatrices) {
  for (const Dtype type : {Dtype::F32, Dtype::F64}) {
    Avals types;
    for (const auto& [depth, columns] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 1}, {31, 17}, {100, 1}, {100, 64}, {33, 16}})
      for (const Shape& shape :
           {Shape{1, depth}, Shape{depth, columns}, Shape{columns, depth}, Shape{1, columns}})
        types.push_back({type, shape});
    const std::string names = expect_same(
        [](ArraySpan x) -> Arrays {
          Arrays out;
          for (std::size_t i = 0; i < x.size(); i += 4) {
            out.push_back(matmul_plain(x[i], x[i + 1]));
            out.push_back(matmul_plain(x[i], transpose(x[i + 2], {1, 0})) + x[i + 3]);
          }
          return out;
        },
        types, type == Dtype::F32 ? 1e-5 : 1e-13);
    EXPECT_NE(names.find("product"), std::string::npos) << names;
  }
}

// Kernels that do not wait for each other are one launch; those that do keep their order.
TEST_F(CudaKernels, KernelsSideBySideAreOneLaunch) {
  const Aval a{Dtype::F32, {3, 5}}, b{Dtype::F32, {7}};
  const auto launches = [&](const Function& f) {
    const Avals types{a, b, a};
    expect_same(f, types, 1e-6);
    return emit::launches_of(
        emit::cuda_unit(emit::build(as_program(make_jaxpr(f, types)), emit::find_target("cuda"))).steps);
  };
  EXPECT_EQ(launches([](ArraySpan x) -> Arrays {
              return {tanh(x[0]), x[1] * 3.0, sum(x[2], {0}), concatenate(Arrays{x[1], x[1] + 1.0}, 0)};
            }),
            1);
  EXPECT_EQ(launches([](ArraySpan x) -> Arrays {
              const Array s = sum(x[0], {0, 1});
              return {s, x[1] * s, x[2] * s, x[1] + 1.0};
            }),
            2);
}

TEST_F(CudaKernels, FoldsOfAllLengths) {
  const auto folds = [](Dims axes) {
    return [axes](ArraySpan x) -> Arrays {
      return {sum(x[0], axes), max(x[0] * 2.0, axes), sum(square(x[0]), axes) + 1.0};
    };
  };
  expect_same(folds({0, 1}), {{Dtype::F32, {400, 101}}}, 1e-6);  // blocks share one result
  expect_same(folds({0}), {{Dtype::F32, {700, 40}}}, 1e-6);      // results side by side
  expect_same(folds({1}), {{Dtype::F64, {3, 20011}}}, 1e-13);    // several blocks for each of three
  expect_same(folds({1}), {{Dtype::F32, {9000, 5}}}, 1e-6);      // one thread each
  expect_same(
      [](ArraySpan x) -> Arrays {
        return {all(greater(x[0], Array(-2.0F))), any(greater(x[0], Array(0.99F)))};
      },
      {{Dtype::F32, {50, 70}}}, 0);
}

TEST_F(CudaKernels, ProductsThatNoLibraryTakes) {
  const Tensors args{convert(Array(numbers({Dtype::F64, {33, 20}}, 1)) * 9.0, Dtype::I32).tensor(),
                     convert(Array(numbers({Dtype::F64, {20, 37}}, 2)) * 9.0, Dtype::I32).tensor()};
  const Program p = as_program(make_jaxpr([](ArraySpan x) { return Arrays{matmul_plain(x[0], x[1])}; },
                                          Avals{args[0].aval(), args[1].aval()}));
  EXPECT_NE(expect_same(p, args, 0).find("product"), std::string::npos);
}

struct TraceCase {
  TracePattern pattern;
  std::int64_t positions, elements, batch, states, steps;
  int gradient;  // how much of it: entry, weighted, total
  Dtype dtype;
  std::optional<Dtype> stored = {};
  bool go = true;
  bool gain = false;
};

// With the trace and the gradient in place.
std::string expect_trace(const TraceCase& c, double tolerance) {
  Dims e = c.pattern.slots.to_dims();
  e.insert(e.begin(), {c.batch, c.states});
  const Shape parameter(c.pattern.parameter_dims());
  Avals types{{c.stored.value_or(c.dtype), Shape(e)},
              {c.dtype, {c.states, c.states, c.batch, c.positions}},
              {c.dtype, {c.steps, c.states, c.batch, c.positions}}};
  const auto add = [&](bool wanted, const Shape& shape) {
    if (wanted) types.push_back({c.dtype, shape});
    return wanted;
  };
  add(c.elements > 0, {c.steps, c.batch, c.elements});
  add(c.gain, parameter);
  add(c.gradient > 0, {c.states, c.batch, c.positions});
  add(c.gradient > 1, {c.steps, c.batch, c.positions});
  add(c.gradient > 2, parameter);
  Tensors args;
  for (std::size_t i = 0; i < types.size(); ++i) args.push_back(numbers(types[i], i));
  const bool rounds = c.stored && size_of(*c.stored) == 2;
  if (rounds) {
    types.push_back({Dtype::U32, {}});
    args.push_back(Tensor::full({Dtype::U32, {}}, std::int64_t{123456789}));
  }
  types.push_back({Dtype::Bool, {}});
  args.push_back(Tensor::full({Dtype::Bool, {}}, std::int64_t{c.go ? 1 : 0}));
  Program p = as_program(make_jaxpr(
      [&](ArraySpan x) -> Arrays {
        std::size_t at = 0;
        TraceWindow w;
        w.trace = x[at++], w.transition = x[at++], w.injection = x[at++];
        if (c.elements > 0) w.source = x[at++];
        if (c.gain) w.gain = x[at++];
        if (c.gradient > 0) w.entry = x[at++];
        if (c.gradient > 1) w.weighted = x[at++];
        if (c.gradient > 2) w.total = x[at++];
        if (rounds) w.rounding = x[at++];
        w.go = x[at];
        const TraceWindowResult r = trace_window(c.pattern, w);
        return c.gradient > 0 ? Arrays{r.trace, r.gradient} : Arrays{r.trace};
      },
      types));
  p.aliases.push_back({0, 0});
  if (c.gradient > 2) p.aliases.push_back({1, types.size() - (rounds ? 3 : 2)});
  return expect_same(p, args, tolerance);
}

TEST_F(CudaKernels, TracesOfDenseWeights) {
  const auto dense = [](std::int64_t rows, std::int64_t columns) {
    return TracePattern{{rows, columns}, {}, {0, 1}, {}, {1, 0}, {}};
  };
  // Tiles: columns four at a time, and one by one; one, two, three and five states; one part and several.
  EXPECT_NE(expect_trace({dense(70, 68), 68, 70, 8, 1, 19, 3, Dtype::F32}, 1e-6).find("trace_tile"),
            std::string::npos);
  expect_trace({dense(70, 68), 68, 70, 2, 2, 6, 3, Dtype::F32}, 1e-6);
  expect_trace({dense(33, 67), 67, 33, 9, 2, 5, 2, Dtype::F64}, 1e-13);
  expect_trace({dense(9, 12), 12, 9, 4, 3, 17, 3, Dtype::F64}, 1e-13);
  expect_trace({dense(9, 12), 12, 9, 4, 5, 4, 0, Dtype::F32}, 1e-6);
  expect_trace({dense(20, 24), 24, 20, 5, 2, 6, 3, Dtype::F32, Dtype::BF16}, 1e-2);
  expect_trace({dense(20, 24), 24, 20, 5, 2, 6, 3, Dtype::F32, {}, false}, 0);
  // Few steps.
  EXPECT_NE(expect_trace({dense(70, 68), 68, 70, 8, 2, 1, 3, Dtype::F32}, 1e-6).find("trace_direct"),
            std::string::npos);
  expect_trace({dense(13, 67), 67, 13, 3, 4, 3, 2, Dtype::F64}, 1e-13);
  expect_trace({dense(13, 64), 64, 13, 9, 1, 2, 1, Dtype::F32, Dtype::F16}, 1e-2);
  expect_trace({dense(13, 64), 64, 13, 9, 1, 1, 3, Dtype::F32, {}, false}, 0);
  expect_trace({dense(13, 64), 64, 13, 9, 1, 1, 3, Dtype::F32, Dtype::BF16, false}, 0);
  expect_trace({dense(9, 12), 12, 9, 4, 2, 2, 2, Dtype::F32, Dtype::BF16, true, true}, 1e-2);
  // Grouped: several matrices.
  expect_trace({{{3, 10, 8}, {}, {8, 0, 1}, {}, {10, 1, 0}, {}}, 24, 30, 4, 2, 6, 3, Dtype::F64}, 1e-13);
  expect_trace({{{3, 10, 8}, {}, {8, 0, 1}, {}, {10, 1, 0}, {}}, 24, 30, 4, 2, 1, 3, Dtype::F64}, 1e-13);
}

TEST_F(CudaKernels, TracesOfOtherPatterns) {
  std::string any =
      expect_trace({{{40}, {}, {1}, {}, {}, {}}, 40, 0, 9, 2, 6, 3, Dtype::F64, {}, true, true}, 1e-13);
  EXPECT_NE(any.find("trace_any"), std::string::npos);
  EXPECT_NE(any.find("trace_sum"), std::string::npos) << any;
  expect_trace({{{12, 9}, {}, {1, 0}, {}, {0, 1}, {}}, 12, 9, 5, 2, 6, 3, Dtype::F64}, 1e-13);  // transposed
  const Dims rows{0, 3, 3, 1, 6, 2, 2}, columns{4, 1, 0, 4, 2, 2, 3};
  expect_trace({{{7}, {}, {}, columns, {}, rows}, 5, 7, 8, 2, 6, 3, Dtype::F64, {}, true, true}, 1e-13);
  expect_trace(
      {{{3, 2, 2, 4, 8}, {0, 1}, {16, 8, 0, 0, 1}, {}, {8, 4, 8, 1, 0}, {}}, 48, 32, 6, 2, 4, 3, Dtype::F64},
      1e-13);
  expect_trace({{{3, 2, 2, 4, 8}, {0, 1}, {16, 8, 0, 0, 1}, {}, {8, 4, 8, 1, 0}, {}},
                48,
                32,
                6,
                1,
                1,
                3,
                Dtype::F64,
                {},
                false},
               0);
  expect_trace({{{6, 5}, {}, {0, 1}, {}, {1, 0}, {}}, 5, 6, 3, 11, 4, 3, Dtype::F64}, 1e-13);  // many states
}

}  // namespace
}  // namespace etrace
