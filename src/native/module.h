// A loaded shared object of emitted code.
#pragma once

#include <string>

#include "runtime/etp_abi.h"

namespace etrace::native {

// Stays loaded as long as it lives. IoError if the file cannot be loaded or speaks another version.
class LoadedModule {
 public:
  explicit LoadedModule(const std::string& path);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  const etp_module& table() const { return *module_; }

 private:
  void* handle_;
  const etp_module* module_;
};

}  // namespace etrace::native
