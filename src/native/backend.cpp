// The native backends: C is emitted for a program, compiled, kept and loaded. Where that is not possible they
// say so once and run the interpreter.
#include "etrace/backend.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "etrace/error.h"
#include "native/background.h"
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
  std::error_code ignored;  // writing says what is wrong
  std::filesystem::create_directories(folder, ignored);
  std::string file;
  for (const char c : name) file += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  write_text(std::string(folder) + "/" + file + "-" + content_hash(source).substr(0, 8) + ".c", source);
}

}  // namespace

EmittedProgram emit_program(const Program& program) {
  EmittedProgram out{emit::build(program), {}};
  out.source = emit::print_c(out.program);
  return out;
}

std::string object_of(const EmittedProgram& emitted) {
  const std::string& source = emitted.source;
  keep_source(emitted.program.name, source);
  std::string key = source + "\n" + compiler_identity() + cpu_identity();
  for (const std::string& option : emitted_code_options()) key += option + " ";
  const Cache cache;
  return cache.object(key, [&](const std::string& object) {
    std::string reason;
    const std::optional<Compiler> compiler = find_compiler(reason);
    if (!compiler) throw IoError("native", "no C compiler was found (" + reason + "); set CC to one");
    const std::string file = object + ".c";
    write_text(file, source);
    const std::string error = compile_shared(*compiler, file, object);
    ::unlink(file.c_str());
    if (!error.empty()) throw IoError("native", error);
  });
}

std::shared_ptr<const Runnable> compile_emitted(EmittedProgram emitted) {
  auto module = std::make_unique<LoadedModule>(object_of(emitted));
  return std::make_shared<NativeProgram>(std::move(emitted.program), std::move(module));
}

std::shared_ptr<const Runnable> compile_native(const Program& program) {
  return compile_emitted(emit_program(program));
}

namespace {

class NativeBackend final : public Backend {
 public:
  std::string_view name() const override { return "native"; }
  std::string_view doc() const override {
    return "emits C for the program and waits until the system's compiler has made code of it";
  }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    check(p);
    try {
      return compile_native(p);
    } catch (const IoError& e) {
      say_why_interpreted(e.message());
      return find_backend("interpreter").compile(p);
    }
  }
};

class AutoBackend final : public Backend {
 public:
  std::string_view name() const override { return "auto"; }
  std::string_view doc() const override {
    return "interprets at once, and goes on with native code as soon as that is compiled";
  }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    check(p);
    return compile_in_background(p);
  }
};

const NativeBackend kNative;
const RegisterBackend kNativeRow(kNative);
const AutoBackend kAuto;
const RegisterBackend kAutoRow(kAuto);

}  // namespace

}  // namespace etrace::native
