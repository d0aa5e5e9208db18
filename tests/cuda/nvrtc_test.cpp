// What is emitted for a CUDA device is taken by the runtime compiler, which needs neither device nor driver.
// Where it is not installed (./dev nvrtc installs it), these tests are skipped.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "cuda/compile.h"
#include "cuda/reference_programs.h"
#include "emit/cuda_unit.h"
#include "emit/emit.h"

namespace etrace {
namespace {

using namespace testing;

// The compiler alone; null if there is none.
const cuda::CudaDriver* real_compiler() {
  static const cuda::CudaDriver* const found = []() -> const cuda::CudaDriver* {
    std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    if (const char* own = std::getenv("ETRACE_NVRTC")) names.insert(names.begin(), own);
    void* handle = nullptr;
    for (const std::string& name : names)
      if (handle == nullptr) handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    using namespace etrace::cuda;
    auto* driver = new CudaDriver;
    const auto find = [&](cuda::Library library, const char* symbol) {
      return library == cuda::kCompiler ? ::dlsym(handle, symbol) : nullptr;
    };
#define ETRACE_CUDA_FIND(library, name, symbol, parameters) \
  driver->name = reinterpret_cast<int(*) parameters>(find(library, symbol));
    ETRACE_CUDA_FUNCTIONS(ETRACE_CUDA_FIND)
#undef ETRACE_CUDA_FIND
    return driver;
  }();
  return found;
}

void expect_compiles(const Program& p, std::initializer_list<const char*> architectures) {
  const emit::CudaUnit unit = emit::cuda_unit(emit::build(p, emit::find_target("cuda")));
  for (const char* architecture : architectures) {
    try {
      EXPECT_GT(cuda::compile_source(*real_compiler(), unit.source, architecture).size(), 100U);
    } catch (const IoError& e) {
      ADD_FAILURE() << p.name << ": " << e.what() << "\n"
                    << unit.source.substr(unit.source.size() > 3000 ? unit.source.size() - 3000 : 0);
    }
  }
}

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
