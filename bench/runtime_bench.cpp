// The runtime kernels against the machine: the peak rate of FMAs is measured in the same run, and every
// matrix product is reported as GFLOP/s and as percent of that peak at the same number of threads. NN: C = A
// B. TN: C += A' B, the gradient of a weight. NT: C = A B', the way back through a weight.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/etp_gemm.h"
#include "runtime/etp_math.h"
#include "runtime/etp_rng.h"
#include "runtime/thread_pool.h"

namespace {

using etrace::ThreadPool;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ThreadPool& pool(int threads) {
  static std::unique_ptr<ThreadPool> pools[2];
  auto& p = pools[threads - 1];
  if (!p) p = std::make_unique<ThreadPool>(threads);
  return *p;
}

// Twelve independent chains: enough to hide the latency of an FMA on two units.
constexpr std::int64_t kPeakSteps = 20000;
__attribute__((noinline)) float fma_chains() {
  etp_v_f32 c[12], x = 0.999f - etp_v_f32{}, y = 0.001f - etp_v_f32{};
  for (int i = 0; i < 12; i++) c[i] = static_cast<float>(i) - etp_v_f32{};
  for (std::int64_t s = 0; s < kPeakSteps; s++) {
    ETP_UNROLL for (int i = 0; i < 12; i++) c[i] = ETP_VFMA_f32(c[i], x, y);
  }
  float sum = 0;
  for (auto& v : c) sum += v[0];
  return sum;
}
constexpr double kPeakFlops = 2.0 * 12 * kPeakSteps * ETP_VBYTES / 4;

// Best rate of short bursts, in GFLOP/s. Measured again around every benchmark, because clocks drift.
double peak(int threads) {
  double best = 0;
  for (int i = 0; i < 20; i++) {
    const double t = seconds();
    pool(threads).parallel(threads, [](int) { benchmark::DoNotOptimize(fma_chains()); });
    best = std::max(best, threads * kPeakFlops / (seconds() - t) * 1e-9);
  }
  return best;
}

void BM_FmaPeak(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) pool(threads).parallel(threads, [](int) { benchmark::DoNotOptimize(fma_chains()); });
  state.counters["GFLOPs"] =
      benchmark::Counter(threads * kPeakFlops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["best"] = peak(threads);
}
BENCHMARK(BM_FmaPeak)->Arg(1)->Arg(2)->UseRealTime();

struct Free {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
std::unique_ptr<T[], Free> buffer(std::size_t n) {
  auto* p = static_cast<T*>(std::aligned_alloc(64, (n * sizeof(T) + 127) / 64 * 64));
  for (std::size_t i = 0; i < n; i++)
    p[i] = static_cast<T>(static_cast<double>(i * 2654435761u % 1000) / 500.0 - 1.0);
  return std::unique_ptr<T[], Free>(p);
}

enum Form { NN, TN, NT };

// best: the fastest call, which on a machine that others use too is the better measure.
void gemm(benchmark::State& state, Form form, std::ptrdiff_t M, std::ptrdiff_t K, std::ptrdiff_t N,
          int threads) {
  auto A = buffer<float>(static_cast<std::size_t>(M * K)), B = buffer<float>(static_cast<std::size_t>(K * N)),
       C = buffer<float>(static_cast<std::size_t>(M * N));
  const std::ptrdiff_t ars = form == TN ? 1 : K, acs = form == TN ? M : 1;
  const std::ptrdiff_t brs = form == NT ? 1 : N, bcs = form == NT ? K : 1;
  const std::size_t bytes = (etp_gemm_scratch_f32(M, N, K, ETP_GEMM_TA | ETP_GEMM_TB) + 63) / 64 * 64;
  auto scratch = buffer<char>(bytes * static_cast<std::size_t>(threads));
  const double flops = 2.0 * static_cast<double>(M) * static_cast<double>(K) * static_cast<double>(N) * 1e-9;
  const int repeat = std::max(1, static_cast<int>(1e-3 / flops));  // so that the clock's own cost vanishes
  double top = peak(threads), best = 1e9;
  for (auto _ : state) {
    const double t = seconds();
    for (int i = 0; i < repeat; i++)
      pool(threads).parallel(threads, [&](int part) {
        std::ptrdiff_t m0, m1, n0, n1;
        etp_gemm_split(M, N, threads, part, &m0, &m1, &n0, &n1);
        etp_gemm_part_f32(m0, m1, n0, n1, K, A.get(), ars, acs, B.get(), brs, bcs, C.get(), N, form == TN,
                          scratch.get() + bytes * static_cast<std::size_t>(part));
      });
    best = std::min(best, (seconds() - t) / repeat);
  }
  top = std::max(top, peak(threads));
  state.counters["GFLOPs"] =
      benchmark::Counter(flops * repeat, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["best"] = flops / best;
  state.counters["percent_of_peak"] = 100 * flops / best / top;
}

struct Shape {
  Form form;
  std::ptrdiff_t M, K, N;
};
const Shape shapes[] = {
    {NN, 1, 356, 256},   {NN, 32, 356, 256},  {NN, 128, 612, 512},  {NN, 128, 2560, 2048}, {TN, 356, 32, 256},
    {TN, 356, 512, 256}, {TN, 1124, 32, 512}, {TN, 1124, 512, 512}, {NT, 1, 356, 256},     {NT, 32, 256, 356},
    {NT, 128, 512, 612}, {NN, 32, 256, 10},   {NN, 100, 100, 100},
};

template <class T>
void array(benchmark::State& state, void (*f)(std::ptrdiff_t, const T*, T*), T range) {
  const std::ptrdiff_t n = 256;
  std::vector<T> x(static_cast<std::size_t>(n)), y(x.size());
  for (std::size_t i = 0; i < x.size(); i++)
    x[i] = range * (static_cast<T>(i * 37 % x.size()) * 2 / static_cast<T>(n) - 1);
  for (auto _ : state) {
    f(n, x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.counters["ns_per_element"] =
      benchmark::Counter(static_cast<double>(n) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
void BM_RandomBits(benchmark::State& state) {
  std::vector<std::uint32_t> out(4096);
  for (auto _ : state) {
    etp_random_bits_u32(1, 2, 0, 4096, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 4096 * 4);
}
BENCHMARK(BM_RandomBits);

void BM_ForkJoin(benchmark::State& state) {
  for (auto _ : state) pool(2).parallel(2, [](int) {});
}
BENCHMARK(BM_ForkJoin)->UseRealTime();

}  // namespace

#define ARRAY(name)                                                                                       \
  benchmark::RegisterBenchmark("v" #name "_f32/256", [](auto& s) { array(s, etp_v##name##_f32, 3.0f); }); \
  benchmark::RegisterBenchmark("v" #name "_f64/256", [](auto& s) { array(s, etp_v##name##_f64, 3.0); })

int main(int argc, char** argv) {
  const char* names[] = {"NN", "TN", "NT"};
  for (const Shape& s : shapes)
    for (int threads : {1, 2}) {
      const std::string name = std::string("gemm/") + names[s.form] + "/M" + std::to_string(s.M) + "/K" +
                               std::to_string(s.K) + "/N" + std::to_string(s.N) + "/T" +
                               std::to_string(threads);
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        gemm(state, s.form, s.M, s.K, s.N, threads);
      })->UseRealTime();
    }
  ARRAY(exp);
  ARRAY(tanh);
  ARRAY(logistic);
  ARRAY(expm1);
  ARRAY(log);
  ARRAY(log1p);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
