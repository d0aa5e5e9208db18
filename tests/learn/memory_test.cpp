// Memory does not grow with time.
#include "learn/scenario.h"

#include <unistd.h>

#include <fstream>

#if defined(__SANITIZE_ADDRESS__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // Debian's gcc has no header for it
#endif

namespace etrace {
namespace {

using namespace testing;

// What the process holds. The address sanitizer keeps freed memory for a while; it knows what is in use.
std::int64_t held_bytes() {
#if defined(__SANITIZE_ADDRESS__)
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
#endif
}

TEST(Memory, FlatOverAMillionSteps) {
  constexpr std::int64_t kChunk = 1000, kSteps = 1'000'000;
  const Model m = leaky_linear();
  const Sequence data = draw_sequence(m, kChunk);
  Learner learner = make_learner(m, D_RTRL());
  std::int64_t early = 0;
  for (std::int64_t done = 0; done < kSteps; done += kChunk) {
    if (done == kSteps / 10) early = held_bytes();
    if (done / kChunk % 2 == 0)
      learner.etrace_grad(data.all(), squared_error());
    else
      learner.etrace_evolve(data.args);
  }
  ASSERT_GT(early, 0) << "memory cannot be measured here";
  EXPECT_EQ(learner.age(), kSteps);
  EXPECT_LT(held_bytes() - early, std::int64_t{4} << 20);
}

}  // namespace
}  // namespace etrace
