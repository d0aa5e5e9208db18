// Random numbers for patterns, one after the other: word i is word i of Threefry's array with the key of the
// seed, so the same seed gives the same pattern on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "etrace/ir.h"

namespace etrace::nn::connect {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t word();
  double uniform();                        // [0, 1)
  std::int64_t below(std::int64_t n);      // 0 … n-1 for n < 2^32, each as likely as the others
  double failures(double log_of_failing);  // how often chance fails before it succeeds, for log(1 - p)

 private:
  std::uint64_t seed_, next_ = 0;
};

// Different numbers below n.
class DistinctDraws {
 public:
  explicit DistinctDraws(std::int64_t n) : taken_(static_cast<std::size_t>(n), 0) {}
  void clear();               // none is taken
  bool take(std::int64_t k);  // false: it was taken before
  // `count` of the first n, ascending, in time of their count (Floyd 1987).
  const Dims& draw(Draws&, std::int64_t n, std::int64_t count);

 private:
  std::vector<std::uint32_t> taken_;  // the round in which it was taken last
  std::uint32_t round_ = 1;
  Dims picked_;
};

// Calls hit(k) for those k of 0 … n-1 that come up with probability p each, ascending, in time of their
// count.
template <class Hit>
void each_with_probability(Draws& draws, double p, double log_of_failing, std::int64_t n, Hit hit) {
  if (p <= 0.0) return;
  for (double k = draws.failures(log_of_failing); k < static_cast<double>(n);
       k += 1.0 + draws.failures(log_of_failing))
    hit(static_cast<std::int64_t>(k));
}
double log_of_failing(double p);  // log(1 - p)

}  // namespace etrace::nn::connect
