// The interpreter: cost per equation, and the cost of tracing and differentiating a GRU step.
//   goals: 42 elementwise equations at size 256 in under 4 µs; trace + linearise + transpose of a GRU step
//   under 2 ms.
#include <benchmark/benchmark.h>

#include "etrace/control.h"
#include "etrace/etp.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"

namespace {

using namespace etrace;

// A cell-like mix: sums, products, two tanh, one logistic, one exp; 42 equations.
ClosedJaxpr elementwise_program(std::int64_t n) {
  const Aval v{Dtype::F32, {n}};
  return make_jaxpr(
      [](ArraySpan in) {
        Array a = in[0], b = in[1], c = in[2];
        for (int i = 0; i < 6; ++i) {
          a = a * 0.9 + b;
          b = b * c - a;
          c = maximum(c + a * 0.1, b);
        }
        const Array z = logistic(a), h = tanh(b);
        return Arrays{z * h + (1.0 - z) * tanh(c), exp(neg(abs(a)))};
      },
      Avals{v, v, v});
}

void Elementwise(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Executable exe(elementwise_program(n));
  const Tensor x = Tensor::full({Dtype::F32, {n}}, 0.3);
  Tensor y = Tensor::zeros({Dtype::F32, {n}}), z = y;
  z = Tensor::zeros({Dtype::F32, {n}});
  const void* in[] = {x.bytes(), x.bytes(), x.bytes()};
  void* out[] = {y.writable(), z.writable()};
  for (auto _ : state) {
    exe.run(in, out);
    benchmark::ClobberMemory();
  }
  state.counters["equations"] = static_cast<double>(exe.steps());
}
BENCHMARK(Elementwise)->Arg(1)->Arg(256)->Arg(4096);

// z = σ([x,h]Wz), r = σ([x,h]Wr), c = tanh([x,r∘h]Wh), h' = (1−z)∘h + z∘c; loss Σ h'²
Array gru_loss(ArraySpan in) {
  const Array &x = in[0], &h = in[1];
  const Array xh = concatenate(Arrays{x, h}, -1);
  const Array z = logistic(matmul(xh, in[2])), r = logistic(matmul(xh, in[3]));
  const Array c = tanh(matmul(concatenate(Arrays{x, r * h}, -1), in[4]));
  return sum(square((1.0 - z) * h + z * c));
}

void TraceAndDifferentiateGru(benchmark::State& state) {
  const Aval x{Dtype::F32, {32, 10}}, h{Dtype::F32, {32, 16}}, w{Dtype::F32, {26, 16}};
  const Avals types{x, h, w, w, w};
  std::size_t equations = 0;
  for (auto _ : state) {
    const ClosedJaxpr forward = make_jaxpr([](ArraySpan a) { return Arrays{gru_loss(a)}; }, types);
    const ClosedJaxpr gradient = value_and_grad(forward, {false, true, true, true, true});
    equations = gradient.jaxpr.eqns.size();
    benchmark::DoNotOptimize(equations);
  }
  state.counters["equations"] = static_cast<double>(equations);
}
BENCHMARK(TraceAndDifferentiateGru)->Unit(benchmark::kMicrosecond);

void MakeExecutable(benchmark::State& state) {
  const ClosedJaxpr program = elementwise_program(256);
  for (auto _ : state) benchmark::DoNotOptimize(Executable(program).arena_bytes());
}
BENCHMARK(MakeExecutable)->Unit(benchmark::kMicrosecond);

}  // namespace
