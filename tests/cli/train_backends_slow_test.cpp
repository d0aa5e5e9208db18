// The same training run on every backend ends in the same bits, also where native code takes over midway.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/process.h"

namespace etrace {
namespace {

std::string parameters_after(const std::string& backend, const std::string& dtype) {
  const std::string file = ::testing::TempDir() + "etrace_backends_" + std::to_string(getpid()) + ".npz";
  const auto r = testing::run_etrace({"train", "integrator", "--model", "gru", "--hidden", "20", "--batch",
                                      "7", "--updates", "30", "--quiet", "--dtype", dtype, "--backend",
                                      backend, "--save", file});
  EXPECT_EQ(r.code, 0) << r.text;
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return bytes;
}

TEST(TrainBackends, EndInTheSameBits) {
  for (const char* dtype : {"f64", "f32"}) {
    const std::string expected = parameters_after("interpreter", dtype);
    EXPECT_GT(expected.size(), 1000U);
    for (const char* backend : {"native", "auto"})
      EXPECT_TRUE(parameters_after(backend, dtype) == expected) << backend << ", " << dtype;
  }
}

}  // namespace
}  // namespace etrace
