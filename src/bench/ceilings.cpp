#include "bench/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/etp_gemm.h"

namespace etrace {

namespace {

constexpr double kMeasured = 0.08;  // seconds that a measurement takes at least
constexpr int kRounds = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one call, the best of at least kRounds bursts; a burst is long enough for the clock.
template <class F>
double best_time(F&& f) {
  f();
  int calls = 1;
  double best = 1e9, total = 0;
  for (int round = 0; round < kRounds || total < kMeasured; ++round) {
    const double start = now();
    for (int i = 0; i < calls; ++i) f();
    const double t = now() - start;
    total += t;
    best = std::min(best, t / calls);
    if (t < 1e-3) calls *= 4;
  }
  return best;
}

// Bounds of a thread's share, at multiples of a cache line.
struct Share {
  Share(std::size_t size, int parts, int part)
      : begin(at(size, parts, part)), end(part + 1 == parts ? size : at(size, parts, part + 1)) {}
  std::size_t begin, end;

 private:
  static std::size_t at(std::size_t size, int parts, int part) {
    return size / static_cast<std::size_t>(parts) * static_cast<std::size_t>(part) / 16 * 16;
  }
};

void update(float* e, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) e[i] = 0.9F * e[i] + 1e-3F;
}

// Enough independent chains to hide the latency of an FMA on two units.
constexpr int kChains = 12;
constexpr std::int64_t kLinks = 20000;
float fma_chains() {
  etp_v_f32 c[kChains], x = 0.999F - etp_v_f32{}, y = 0.001F - etp_v_f32{};
  for (int i = 0; i < kChains; i++) c[i] = static_cast<float>(i) - etp_v_f32{};
  for (std::int64_t s = 0; s < kLinks; s++) {
    ETP_UNROLL for (int i = 0; i < kChains; i++) c[i] = ETP_VFMA_f32(c[i], x, y);
  }
  float sum = 0;
  for (const auto& v : c) sum += v[0];
  return sum;
}

}  // namespace

double seconds_of_update(ThreadPool& pool, std::size_t bytes) {
  std::vector<float> e(std::max<std::size_t>(bytes / sizeof(float), 1), 1.0F);
  return best_time([&] {
    pool.parallel(pool.size(), [&](int part) {
      const Share own(e.size(), pool.size(), part);
      update(e.data() + own.begin, own.end - own.begin);
    });
  });
}

double seconds_of_copy(ThreadPool& pool, std::size_t bytes) {
  std::vector<float> from(std::max<std::size_t>(bytes / sizeof(float), 1), 1.0F), to(from.size(), 0.0F);
  return best_time([&] {
    pool.parallel(pool.size(), [&](int part) {
      const Share own(from.size(), pool.size(), part);
      std::memcpy(to.data() + own.begin, from.data() + own.begin, (own.end - own.begin) * sizeof(float));
    });
  });
}

double fma_rate(ThreadPool& pool) {
  std::vector<float> sums(static_cast<std::size_t>(pool.size()) * 16);
  const double t = best_time([&] {
    pool.parallel(pool.size(), [&](int part) { sums[static_cast<std::size_t>(part) * 16] = fma_chains(); });
  });
  constexpr int kLanes = ETP_VBYTES / 4;
  constexpr double kOperations = 2.0 * kChains * kLinks * kLanes;
  return pool.size() * kOperations / t;
}

double seconds_of_hand_over(ThreadPool& pool, double alone) {
  constexpr double kPart = 5e-6;
  constexpr std::size_t kTimes = 1000;
  const auto work = [](double seconds) {
    for (const double start = now(); now() - start < seconds;) {
    }
  };
  std::vector<double> times;
  for (std::size_t i = 0; i < kTimes; ++i) {
    work(alone);
    const double start = now();
    pool.parallel(pool.size(), [&](int) { work(kPart); });
    times.push_back(now() - start - kPart);
  }
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  return times[kTimes / 2];
}

}  // namespace etrace
