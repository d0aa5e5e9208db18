// Memory does not grow with time.
#include "learn/scenario.h"

#include <unistd.h>

#include <fstream>

namespace etrace {
namespace {

using namespace testing;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Memory, FlatOverAMillionSteps) {
  if (resident_bytes() == 0) GTEST_SKIP() << "/proc is not there";
  constexpr std::int64_t kChunk = 1000, kSteps = 1'000'000;
  const Model m = leaky_linear();
  const Sequence data = draw_sequence(m, kChunk);
  Learner learner = make_learner(m, D_RTRL());
  std::int64_t early = 0;
  for (std::int64_t done = 0; done < kSteps; done += kChunk) {
    if (done == kSteps / 10) early = resident_bytes();
    if (done / kChunk % 2 == 0)
      learner.etrace_grad(data.all(), squared_error());
    else
      learner.etrace_evolve(data.args);
  }
  EXPECT_EQ(learner.age(), kSteps);
  EXPECT_LT(resident_bytes() - early, std::int64_t{4} << 20);
}

}  // namespace
}  // namespace etrace
