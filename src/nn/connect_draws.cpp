#include "nn/connect_draws.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/etp_math.h"
#include "runtime/etp_rng.h"

namespace etrace::nn::connect {

std::uint64_t Draws::word() {
  std::uint64_t out = 0;
  etp_random_bits_u64(static_cast<std::uint32_t>(seed_ >> 32U), static_cast<std::uint32_t>(seed_), next_++, 1,
                      &out);
  return out;
}

double Draws::uniform() { return static_cast<double>(word() >> 11U) * 0x1p-53; }

// The high half of (32 bits) · n; those that would make some numbers likelier are drawn again (Lemire 2019).
std::int64_t Draws::below(std::int64_t n) {
  const auto bound = static_cast<std::uint32_t>(n);
  const std::uint32_t unfair = (0U - bound) % bound;
  for (;;) {
    const std::uint64_t product = (word() >> 32U) * bound;
    if (static_cast<std::uint32_t>(product) >= unfair) return static_cast<std::int64_t>(product >> 32U);
  }
}

double log_of_failing(double p) { return p < 1.0 ? etp_log1p_f64(-p) : -HUGE_VAL; }

double Draws::failures(double log_of_failing) {
  return std::floor(etp_log_f64(1.0 - uniform()) / log_of_failing);
}

void DistinctDraws::clear() {
  if (++round_ == 0) {
    std::fill(taken_.begin(), taken_.end(), 0);
    round_ = 1;
  }
}

bool DistinctDraws::take(std::int64_t k) {
  return std::exchange(taken_[static_cast<std::size_t>(k)], round_) != round_;
}

const Dims& DistinctDraws::draw(Draws& draws, std::int64_t n, std::int64_t count) {
  clear();
  picked_.clear();
  for (std::int64_t last = n - count; last < n; ++last) {
    std::int64_t k = draws.below(last + 1);
    if (!take(k)) take(k = last);
    picked_.push_back(k);
  }
  std::sort(picked_.begin(), picked_.end());
  return picked_;
}

}  // namespace etrace::nn::connect
