// NVRTC itself, which needs neither device nor driver.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/compile.h"
#include "emit/cuda_unit.h"
#include "emit/emit.h"
#include "emit/kernel_text.h"
#include "etrace/error.h"

namespace etrace::testing {

// The compiler alone; null if there is none.
inline const cuda::CudaDriver* real_compiler() {
  static const cuda::CudaDriver* const found = []() -> const cuda::CudaDriver* {
    std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", ETRACE_VENV_NVRTC};
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

inline std::string source_for_device(const Program& p) {
  return emit::cuda_unit(emit::build(p, emit::find_target("cuda"))).source;
}
inline void expect_compiles(const Program& p, std::initializer_list<const char*> architectures) {
  const std::string source = source_for_device(p);
  for (const char* architecture : architectures) {
    try {
      EXPECT_GT(cuda::compile_source(*real_compiler(), source, architecture).size(), 100U);
    } catch (const IoError& e) {
      ADD_FAILURE() << p.name << ": " << e.what() << "\n"
                    << source.substr(source.size() > 3000 ? source.size() - 3000 : 0);
    }
  }
}

// Many programs as one text, each in a namespace of its own, so that the headers are read once.
class JoinedSources {
 public:
  void add(const Program& p) {
    if (text_.empty()) begin();
    text_ += "namespace " + ("program" + std::to_string(count_++)) + " {\n" + source_for_device(p) + "}\n";
  }
  int count() const { return count_; }
  void expect_taken() const {
    for (const char* architecture : {"sm_80", "sm_90"}) try {
        cuda::check_source(*real_compiler(), text_, architecture);
      } catch (const IoError& e) {
        ADD_FAILURE() << architecture << ": " << e.what();
      }
  }

 private:
  void begin() {
    for (const char* header :
         {"etp_cuda.h", "etp_scalar.h", "etp_trig.h", "etp_math.h", "etp_rng.h", "etp_draw.h",
          "etp_rounded.h", "etp_cuda_vector.h", "etp_cuda_product.h", "etp_cuda_trace.h"})
      text_ += emit::kernel_text(header);
    text_ +=
        "#undef ETP_KERNEL\n"
        "#define ETP_KERNEL(name, pointers, threads) \\\n"
        "  __global__ void __launch_bounds__(threads) name(const etp_pointers<pointers> p)\n";
  }
  std::string text_;
  int count_ = 0;
};

}  // namespace etrace::testing
