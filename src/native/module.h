// A loaded shared object of emitted code.
#pragma once

#include <string>

#include "kernels/etp_abi.h"

#pragma GCC visibility push(default)
namespace etrace::native {

// Text that makes a module export `key`, behind its C source.
std::string key_definition(const std::string& key);

// Stays loaded as long as it lives. IoError if the file cannot be loaded, speaks another version, or is the
// module of another key than this.
class LoadedModule {
 public:
  LoadedModule(const std::string& path, const std::string& key);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  const etp_module& table() const { return *module_; }
  void* symbol(const char* name) const;  // null: it exports none of this name

 private:
  void* handle_ = nullptr;
  const etp_module* module_ = nullptr;
};

}  // namespace etrace::native
#pragma GCC visibility pop
