#include "native/module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "etrace/error.h"

namespace etrace::native {

LoadedModule::LoadedModule(const std::string& path)
    : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)), module_(nullptr) {
  if (handle_ == nullptr) {
    const char* reason = ::dlerror();
    throw IoError("native",
                  fmt::format("cannot load {}: {}", path, reason == nullptr ? "unknown reason" : reason));
  }
  module_ = static_cast<const etp_module*>(::dlsym(handle_, "etrace_module"));
  if (module_ != nullptr && module_->version == ETP_ABI_VERSION) return;
  ::dlclose(handle_);
  throw IoError("native", path + " is not code that this version of etrace emitted");
}

LoadedModule::~LoadedModule() { ::dlclose(handle_); }

}  // namespace etrace::native
