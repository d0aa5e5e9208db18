#include "cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace etrace::cuda {

namespace {

// As they are called in systems, and in the packages of PyPI if their folder is searched; the newest first.
const std::vector<const char*> kNames[kLibraries] = {
    {"libcuda.so.1", "libcuda.so"},
    {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
    {"libcublas.so.13", "libcublas.so.12", "libcublas.so"},
};

void* opened(Library library, CudaDriver& driver) {
  std::vector<std::string> names(kNames[library].begin(), kNames[library].end());
  if (const char* played = std::getenv("ETRACE_CUDA_LIBRARY"); played != nullptr && *played != '\0')
    names = {played};
  std::string why;
  for (const std::string& name : names) {
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      driver.path[library] = name;
      return handle;
    }
    if (why.empty()) why = ::dlerror();
  }
  driver.missing[library] = why;
  return nullptr;
}

CudaDriver open_all() {
  CudaDriver driver;
  void* handles[kLibraries];
  for (std::uint8_t i = 0; i < kLibraries; ++i) handles[i] = opened(static_cast<Library>(i), driver);
  const auto find = [&](Library library, const char* symbol) -> void* {
    if (handles[library] == nullptr) return nullptr;
    void* const found = ::dlsym(handles[library], symbol);
    if (found == nullptr && driver.missing[library].empty())
      driver.missing[library] =
          driver.path[library] + " has no function " + symbol + "; a newer one is needed";
    return found;
  };
#define ETRACE_CUDA_FIND(library, name, symbol, parameters) \
  driver.name = reinterpret_cast<int(*) parameters>(find(library, symbol));
  ETRACE_CUDA_FUNCTIONS(ETRACE_CUDA_FIND)
#undef ETRACE_CUDA_FIND
  return driver;
}

}  // namespace

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = open_all();
  return driver;
}

}  // namespace etrace::cuda
