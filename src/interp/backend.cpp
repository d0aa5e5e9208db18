// The interpreter as a backend.
#include "etrace/backend.h"

#include "etrace/interp.h"

namespace etrace {

namespace {

class InterpretedProgram final : public Runnable {
 public:
  explicit InterpretedProgram(const Program& p) : code_(p.jaxpr, p.aliases) {}
  void run(const void* const* arguments, void* const* results) const override {
    code_.run(arguments, results);
  }
  std::size_t arena_bytes() const override { return code_.arena_bytes(); }

 private:
  Executable code_;
};

class Interpreter final : public Backend {
 public:
  std::string_view name() const override { return "interpreter"; }
  std::string_view doc() const override { return "runs any program, one kernel per equation"; }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    check(p);
    return std::make_shared<InterpretedProgram>(p);
  }
};

const Interpreter kInterpreter;
const RegisterBackend kRow(kInterpreter);

}  // namespace

}  // namespace etrace
