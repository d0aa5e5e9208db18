// What is emitted for a CUDA device is taken by the runtime compiler, which needs neither device nor driver.
// Where it is not installed (./dev nvrtc installs it), these tests are skipped.
#include <gtest/gtest.h>

#include "cuda/real_compiler.h"
#include "cuda/reference_programs.h"

namespace etrace {
namespace {

using namespace testing;

TEST(CudaCompiler, TakesEmittedPrograms) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  for (const char* name : {"cell_GRUCell_b3", "op_conv1d_b3", "op_sparse_csr"}) {
    Model m = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
    m.name = name;
    expect_compiles(gradient_program(m, "window"), {"sm_80", "sm_90"});
    expect_compiles(gradient_program(m, "step"), {"sm_90"});
  }
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
}

}  // namespace
}  // namespace etrace
