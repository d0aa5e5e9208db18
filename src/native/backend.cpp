// The native backend: emits C, has it compiled, and runs the result. Where that is not possible it says so
// once and runs the interpreter.
#include "etrace/backend.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "etrace/error.h"
#include "native/cache.h"
#include "native/compile.h"
#include "native/runnable.h"
#include "native/toolchain.h"

namespace etrace::native {

namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.flush();
  if (!out) throw IoError("native", "cannot write " + path);
}

// With ETRACE_KEEP_SOURCE=FOLDER every emitted program is kept there as text.
void keep_source(const std::string& name, const std::string& source) {
  const char* folder = std::getenv("ETRACE_KEEP_SOURCE");
  if (folder == nullptr || *folder == '\0') return;
  std::string file;
  for (const char c : name) file += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  write_text(std::string(folder) + "/" + file + "-" + content_hash(source).substr(0, 8) + ".c", source);
}

}  // namespace

std::shared_ptr<const Runnable> compile_native(const Program& program) {
  emit::EmitProgram p = emit::build(program);
  const std::string source = emit::print_c(p);
  keep_source(program.name, source);
  std::string reason;
  const std::optional<Compiler> compiler = find_compiler(reason);
  if (!compiler) throw IoError("native", "no C compiler was found (" + reason + "); set CC to one");
  std::string key = source + "\n" + compiler->identity + cpu_identity();
  for (const std::string& option : emitted_code_options()) key += option + " ";
  const Cache cache;
  const std::string path = cache.object(key, [&](const std::string& object) {
    const std::string file = object + ".c";
    write_text(file, source);
    const std::string error = compile_shared(*compiler, file, object);
    ::unlink(file.c_str());
    if (!error.empty()) throw IoError("native", error);
  });
  return std::make_shared<NativeProgram>(std::move(p), std::make_unique<LoadedModule>(path));
}

namespace {

class NativeBackend final : public Backend {
 public:
  std::string_view name() const override { return "native"; }
  std::string_view doc() const override { return "emits C for the program and has the system compile it"; }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    check(p);
    try {
      return compile_native(p);
    } catch (const IoError& e) {
      static std::atomic<bool> said{false};
      if (!said.exchange(true))
        std::fprintf(stderr, "etrace: programs run in the interpreter: %s\n", e.message().c_str());
      return find_backend("interpreter").compile(p);
    }
  }
};

const NativeBackend kNative;
const RegisterBackend kRow(kNative);

}  // namespace

}  // namespace etrace::native
