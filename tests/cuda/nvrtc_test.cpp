// What is emitted for a CUDA device is taken by the runtime compiler, which needs neither device nor driver.
// Where it is not installed (./dev test brings it into build/venv), these tests are skipped.
#include <gtest/gtest.h>

#include "cuda/real_compiler.h"
#include "cuda/reference_programs.h"
#include "cuda/staging.h"

namespace etrace {
namespace {

using namespace testing;

TEST(CudaCompiler, MakesMachineCode) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  Model m = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/cell_GRUCell_b3.json");
  m.name = "gru";
  expect_compiles(gradient_program(m, "window"), {"sm_80", "sm_90"});
}

TEST(CudaCompiler, MakesTheKernelThatCopies) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  for (const char* architecture : {"sm_80", "sm_90"})
    EXPECT_FALSE(cuda::compile_source(*real_compiler(), cuda::copies_source(), architecture).empty());
}

TEST(CudaCompiler, SaysWhatIsWrong) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  try {
    static_cast<void>(cuda::compile_source(*real_compiler(), "this is no CUDA", "sm_90"));
    FAIL();
  } catch (const IoError& e) {
    EXPECT_NE(e.message().find("NVRTC refuses the emitted program: etrace.cu(1): error"), std::string::npos)
        << e.message();
  }
  // Errors alone, before whatever else there would be to say.
  try {
    cuda::check_source(*real_compiler(), "static __device__ int unused() { return 1; }\nint x = y;", "sm_90");
    FAIL();
  } catch (const IoError& e) {
    EXPECT_NE(e.message().find("NVRTC refuses the emitted program: etrace.cu(2): error"), std::string::npos)
        << e.message();
  }
}

// Numbers of every type as constants of the text.
TEST(CudaCompiler, TakesNumbersOfEveryType) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  JoinedSources all;
  const std::vector<std::pair<Dtype, Scalar>> numbers{
      {Dtype::Bool, true},
      {Dtype::I32, std::int64_t{std::numeric_limits<std::int32_t>::min()}},
      {Dtype::I64, std::numeric_limits<std::int64_t>::min()},
      {Dtype::I64, std::numeric_limits<std::int64_t>::max()},
      {Dtype::U32, std::int64_t{4294967295}},
      {Dtype::F32, std::numeric_limits<double>::infinity()},
      {Dtype::F64, std::numeric_limits<double>::quiet_NaN()}};
  for (const auto& [dtype, value] : numbers)
    all.add(
        as_program(make_jaxpr([&, type = dtype, number = value](
                                  ArraySpan x) { return Arrays{where(x[1], x[0], full({3}, number, type))}; },
                              Avals{{dtype, {3}}, {Dtype::Bool, {3}}})));
  all.expect_taken();
}

}  // namespace
}  // namespace etrace
