// Random programs by emitted code and by the interpreter: the same bits, in both types, for any batch and any
// number of threads.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/thread_pool.h"
#include "support/native.h"
#include "support/random_programs.h"

namespace etrace::testing {
namespace {

class SameBits : public ::testing::TestWithParam<std::tuple<Dtype, std::int64_t>> {
 protected:
  void TearDown() override { set_num_threads(1); }
};

void compare(const RandomPrograms& all) {
  set_num_threads(1);
  const Tensors expected = run_interpreter(all.program, all.arguments);
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    // Kernels and products are cut for the threads that are there when they are made.
    const Tensors found = run_native(all.program, all.arguments),
                  interpreted = run_interpreter(all.program, all.arguments);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same_bits(found[i], expected[i])) << threads << " threads, " << to_string(found[i].aval())
                                                    << " " << distance(found[i], expected[i]) << " away\n"
                                                    << all.labels[i];
      EXPECT_TRUE(same_bits(interpreted[i], expected[i])) << threads << " threads interpret\n"
                                                          << all.labels[i];
    }
  }
}

// ETRACE_RANDOM_PROGRAMS=N: so many of each kind.
std::size_t number_of_programs() {
  const char* text = std::getenv("ETRACE_RANDOM_PROGRAMS");
  return text == nullptr ? 8 : static_cast<std::size_t>(std::atoll(text));
}

TEST_P(SameBits, OfRandomPrograms) {
  const auto [dtype, batch] = GetParam();
  constexpr std::size_t kTogether = 24;
  const std::size_t all = number_of_programs();
  for (std::size_t first = 0; first < all && !HasFailure(); first += kTogether)
    compare(random_programs(100'000 * static_cast<std::uint64_t>(batch) + first,
                            std::min(kTogether, all - first), dtype, batch));
}

std::string case_name(const ::testing::TestParamInfo<SameBits::ParamType>& info) {
  return std::string(short_name(std::get<0>(info.param))) + "_batch" +
         std::to_string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Programs, SameBits,
                         ::testing::Combine(::testing::Values(Dtype::F32, Dtype::F64),
                                            ::testing::Values(1, 3, 7, 33)),
                         case_name);

}  // namespace
}  // namespace etrace::testing
