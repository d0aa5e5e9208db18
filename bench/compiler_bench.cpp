// Compiling graphs: a three-layer model, and the growth of the cost with the number of equations.
//   goals: about 50 equations in under 5 ms; linear up to 10,000 equations.
#include <benchmark/benchmark.h>

#include "etrace/compiler.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"

namespace {

using namespace etrace;

// GRU cells in a row: about 16 equations each.
struct Stack : Module {
  explicit Stack(std::int64_t layers) {
    for (std::int64_t i = 0; i < layers; ++i)
      cells.push_back(&child<nn::GRUCell>("cell" + std::to_string(i), 8, 8));
  }
  Array update(const Array& x) override {
    Array y = x;
    for (nn::GRUCell* cell : cells) y = (*cell)(y);
    return y;
  }
  std::vector<nn::GRUCell*> cells;
};

void CompileLayers(benchmark::State& state) {
  Stack model(state.range(0));
  init_all_states(model);
  const Model step = trace_step(model, zeros({8})).model;
  for (auto _ : state) benchmark::DoNotOptimize(compile_etrace_graph(step).diagnostics.size());
  const auto equations = static_cast<std::int64_t>(step.program.jaxpr.eqns.size());
  state.counters["equations"] = static_cast<double>(equations);
  state.SetComplexityN(equations);
}
BENCHMARK(CompileLayers)
    ->Arg(3)
    ->Arg(12)
    ->Arg(48)
    ->Arg(192)
    ->Arg(600)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

void TraceAndCompileThreeLayers(benchmark::State& state) {
  Stack model(3);
  init_all_states(model);
  const Array x = zeros({8});
  for (auto _ : state) benchmark::DoNotOptimize(compile_etrace_graph(model, x).diagnostics.size());
}
BENCHMARK(TraceAndCompileThreeLayers)->Unit(benchmark::kMillisecond);

}  // namespace
