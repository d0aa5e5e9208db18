// The interpreter as a backend.
#include "etrace/backend.h"

#include <cstring>
#include <mutex>

#include "etrace/interp.h"
#include "interp/arena.h"

namespace etrace {

namespace {

// Aliased results are computed beside their arguments and copied over them at the end.
class InterpretedProgram final : public Runnable {
 public:
  explicit InterpretedProgram(const Program& p) : program_(p), code_(p.jaxpr) {
    for (const Alias& a : p.aliases) beside_.emplace_back(p.results[a.result].aval.bytes());
  }
  void run(const void* const* arguments, void* const* results) const override {
    const std::lock_guard lock(mutex_);
    std::vector<void*> out(results, results + program_.results.size());
    for (std::size_t k = 0; k < beside_.size(); ++k) out[program_.aliases[k].result] = beside_[k].data();
    code_.run(arguments, out.data());
    for (std::size_t k = 0; k < beside_.size(); ++k)
      std::memcpy(results[program_.aliases[k].result], beside_[k].data(), beside_[k].size());
  }
  std::size_t arena_bytes() const override {
    std::size_t bytes = code_.arena_bytes();
    for (const AlignedBuffer& b : beside_) bytes += b.size();
    return bytes;
  }

 private:
  Program program_;
  Executable code_;
  std::vector<AlignedBuffer> beside_;
  mutable std::mutex mutex_;
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
