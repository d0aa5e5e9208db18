// The native backends: C is emitted for a program, compiled, kept and loaded. Where that is not possible they
// say so once and run the interpreter.
#include "etrace/backend.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "emit/names.h"
#include "etrace/error.h"
#include "native/background.h"
#include "native/cache.h"
#include "native/compile.h"
#include "native/runnable.h"
#include "native/toolchain.h"
#include "native/work_folder.h"

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
  write_text(
      std::string(folder) + "/" + emit::identifier(name) + "-" + content_hash(source).substr(0, 8) + ".c",
      source);
}

}  // namespace

EmittedProgram emit_program(const Program& program) {
  EmittedProgram out{emit::build(program), {}};
  out.source = emit::print_c(out.program);
  return out;
}

namespace {

// What the compiler makes of a program, and from what: source, compilers, their options and the CPU.
class Compilation {
 public:
  explicit Compilation(const std::string& source)
      : source_(source), key_(source + "\n" + compiler_identity() + cpu_identity()) {
    for (const std::string& option : emitted_code_options()) key_ += option + " ";
  }

  std::shared_ptr<const LoadedModule> from_cache() const {
    const Cache cache;
    for (bool first = true;; first = false) {
      bool hit = false;
      const std::string path = cache.object(
          key_, [&](const std::string& to) { make(to); }, &hit);
      try {
        return std::make_shared<LoadedModule>(path, key_);
      } catch (const IoError& e) {
        cache.discard(path, e.message());
        if (!hit || !first) throw;
      }
    }
  }
  // The file may go as soon as it is loaded.
  std::shared_ptr<const LoadedModule> without_cache() const {
    const char* folder = std::getenv("TMPDIR");
    const WorkFolder work(folder != nullptr && *folder != '\0' ? folder : "/tmp");
    const std::string path = work.path() + "/object.so";
    make(path);
    return std::make_shared<LoadedModule>(path, key_);
  }

  bool has_compiler() const { return compiler().has_value(); }

 private:
  const std::optional<Compiler>& compiler() const {
    if (!looked_) compiler_ = find_compiler(reason_);
    looked_ = true;
    return compiler_;
  }
  void make(const std::string& object) const {
    if (!compiler()) throw IoError("native", "no C compiler was found (" + reason_ + "); set CC to one");
    write_text(object + ".c", source_ + key_definition(key_));
    const std::string error = compile_shared(*compiler_, object + ".c", object);
    if (!error.empty()) throw IoError("native", error);
  }

  const std::string& source_;
  std::string key_;
  mutable bool looked_ = false;
  mutable std::optional<Compiler> compiler_;
  mutable std::string reason_;
};

}  // namespace

std::shared_ptr<const LoadedModule> module_of(const EmittedProgram& emitted) {
  keep_source(emitted.program.name, emitted.source);
  const Compilation compilation(emitted.source);
  std::string why;
  try {
    return compilation.from_cache();
  } catch (const IoError& e) {
    if (!compilation.has_compiler()) throw;
    why = e.message();
  }
  std::shared_ptr<const LoadedModule> module = compilation.without_cache();
  count_not_kept(why);
  return module;
}

std::shared_ptr<const Runnable> compile_emitted(EmittedProgram emitted, const etp_context& context,
                                                std::shared_ptr<Workspace> workspace) {
  auto module = module_of(emitted);
  return std::make_shared<NativeProgram>(std::move(emitted.program), std::move(module), context,
                                         std::move(workspace));
}

std::shared_ptr<const Runnable> compile_native(const Program& program, const etp_context& context,
                                               std::shared_ptr<Workspace> workspace) {
  return compile_emitted(emit_program(program), context, std::move(workspace));
}

namespace {

class NativeBackend final : public Backend, public SharesWorkspace {
 public:
  std::string_view name() const override { return "native"; }
  std::string_view doc() const override {
    return "emits C for the program and waits until the system's compiler has made code of it";
  }
  std::shared_ptr<const Runnable> compile(const Program& p) const override { return compile_in({}, p); }
  std::shared_ptr<const Runnable> compile_in(const std::shared_ptr<Workspace>& workspace,
                                             const Program& p) const override {
    check(p);
    try {
      return compile_native(p, default_context(), workspace);
    } catch (const IoError& e) {
      say_why_interpreted(e.message());
      return find_backend("interpreter").compile(p);
    }
  }
};

class AutoBackend final : public Backend, public SharesWorkspace {
 public:
  std::string_view name() const override { return "auto"; }
  std::string_view doc() const override {
    return "interprets at once, and goes on with native code as soon as that is compiled";
  }
  std::shared_ptr<const Runnable> compile(const Program& p) const override { return compile_in({}, p); }
  std::shared_ptr<const Runnable> compile_in(const std::shared_ptr<Workspace>& workspace,
                                             const Program& p) const override {
    check(p);
    return compile_in_background(p, workspace);
  }
};

const NativeBackend kNative;
const RegisterBackend kNativeRow(kNative);
const AutoBackend kAuto;
const RegisterBackend kAutoRow(kAuto);

}  // namespace

}  // namespace etrace::native
