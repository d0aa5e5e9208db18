// One exit Var per hidden state, so that a Var names a state.
#pragma once

#include <fmt/format.h>

#include "compiler/program_index.h"
#include "etrace/error.h"
#include "etrace/model_io.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

// Gives every hidden state an exit Var of its own: a copy of what it shares with another state, of an input
// that it passes through, or of a constant.
class OutvarSeparator {
 public:
  OutvarSeparator(ClosedJaxpr& program, bool separate) : program_(program), separate_(separate) {
    for (const Var& v : program.jaxpr.invars) taken_.insert(v.id);
    for (const Var& v : program.jaxpr.constvars) taken_.insert(v.id);
  }

  Var own(std::size_t output, const StatePath& path) {
    Atom& atom = program_.jaxpr.outs[output];
    const Var* v = as_var(atom);
    if (!separate_) {
      if (v != nullptr) return *v;
      throw NotSupportedError("module_info",
                              fmt::format("hidden state {} is set to a constant", to_string(path)));
    }
    if (v != nullptr && taken_.insert(v->id).second) return *v;
    const Var fresh = fresh_var(aval_of(atom));
    program_.jaxpr.eqns.push_back(make_eqn(copy_p, {atom}, {fresh}));
    taken_.insert(fresh.id);
    atom = fresh;
    return fresh;
  }

 private:
  ClosedJaxpr& program_;
  bool separate_;
  VarIds taken_;
};

}  // namespace etrace
