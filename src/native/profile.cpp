#include "native/profile.h"

#include <algorithm>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "etrace/error.h"
#include "native/compile.h"
#include "native/runnable.h"

namespace etrace::native {

namespace {

StepTime described(const emit::EmitProgram& p, const emit::TimedStep& step) {
  StepTime out;
  out.kind = step.kind == emit::TimedStep::Loops     ? "loops " + step.function
             : step.kind == emit::TimedStep::Product ? "product"
                                                     : "kernel";
  for (const int e : step.eqns) {
    if (e < 0) continue;
    const emit::SourceEqn& eqn = p.eqns[static_cast<std::size_t>(e)];
    out.equations.push_back(eqn.text);
    if (!eqn.path.empty() && std::find(out.paths.begin(), out.paths.end(), eqn.path) == out.paths.end())
      out.paths.push_back(eqn.path);
  }
  return out;
}

}  // namespace

ProfiledProgram::ProfiledProgram(const Program& program) {
  check(program);
  EmittedProgram emitted{emit::build(program), {}};
  std::vector<emit::TimedStep> steps;
  emitted.source = emit::print_timed_c(emitted.program, steps);
  for (const emit::TimedStep& s : steps) steps_.push_back(described(emitted.program, s));
  auto module = module_of(emitted);
  table_ = static_cast<std::int64_t(*)[2]>(module->symbol("etrace_times"));
  ETRACE_CHECK(table_ != nullptr);  // the source that was printed above has one
  code_ = std::make_shared<NativeProgram>(std::move(emitted.program), std::move(module), default_context());
  reset();
}

std::vector<StepTime> ProfiledProgram::times() const {
  std::vector<StepTime> out = steps_;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].seconds = static_cast<double>(table_[i][0]) * 1e-9;
    out[i].calls = table_[i][1];
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const StepTime& a, const StepTime& b) { return a.seconds > b.seconds; });
  return out;
}

void ProfiledProgram::reset() {
  for (std::size_t i = 0; i < steps_.size(); ++i) table_[i][0] = table_[i][1] = 0;
}

}  // namespace etrace::native
