#include "native/module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <mutex>

#include "emit/names.h"
#include "etrace/error.h"

namespace etrace::native {

std::string key_definition(const std::string& key) {
  std::string text =
      "\n/* What this was made from and for: its name in the cache follows from it. */\n"
      "__attribute__((visibility(\"default\"))) const char etrace_key[] =\n";
  for (std::size_t at = 0; at < key.size();) {
    const std::size_t end = std::min(key.find('\n', at), key.size() - 1) + 1;
    text += emit::string_literal(std::string_view(key).substr(at, end - at)) + "\n";
    at = end;
  }
  return text + ";\n";
}

namespace {
// Held while the loader is at work. No fork meanwhile: the new process would wait for a thread it has not.
std::mutex& loading() {
  static std::mutex& instance = *new std::mutex;
  static const int forks =
      ::pthread_atfork([] { loading().lock(); }, [] { loading().unlock(); }, [] { loading().unlock(); });
  (void)forks;
  return instance;
}
}  // namespace

LoadedModule::LoadedModule(const std::string& path, const std::string& key) {
  // The loader knows files by their name: a wrong one must be unloaded before anyone asks for the name again.
  const std::lock_guard lock(loading());
  handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* reason = ::dlerror();
    throw IoError("native",
                  fmt::format("cannot load {}: {}", path, reason == nullptr ? "unknown reason" : reason));
  }
  module_ = static_cast<const etp_module*>(symbol("etrace_module"));
  const auto* own_key = static_cast<const char*>(symbol("etrace_key"));
  const char* wrong = module_ == nullptr || own_key == nullptr || module_->version != ETP_ABI_VERSION
                          ? "is not code that this version of etrace emitted"
                      : own_key != key ? "holds the code of another program"
                                       : nullptr;
  if (wrong == nullptr) return;
  ::dlclose(handle_);
  throw IoError("native", path + " " + wrong);
}

LoadedModule::~LoadedModule() {
  const std::lock_guard lock(loading());
  ::dlclose(handle_);
}

void* LoadedModule::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace etrace::native
