// NVRTC itself, which needs neither device nor driver.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/compile.h"
#include "emit/cuda_unit.h"
#include "emit/emit.h"
#include "etrace/error.h"

namespace etrace::testing {

// The compiler alone; null if there is none.
inline const cuda::CudaDriver* real_compiler() {
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

inline void expect_compiles(const Program& p, std::initializer_list<const char*> architectures) {
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

}  // namespace etrace::testing
