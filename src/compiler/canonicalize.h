// Control flow brought into a flat form before the analysis. Inputs and outputs of the program keep their
// identity.
#pragma once

#include "compiler/program_index.h"
#include "etrace/compiler.h"

namespace etrace {

// What makes an equation with bodies relevant to the analysis.
struct RelevanceTables {
  VarIds weights, hidden_in, hidden_out;
  bool weights_pass_operators = false;  // the reference takes an operator's output for its weight
};

// Conditionals become branches and a selection; short scans are unrolled; repeated until nothing changes.
// CompilationError if that takes more than policy.fixpoint_iteration_limit rounds.
ClosedJaxpr canonicalize_control_flow(const ClosedJaxpr&, const RelevanceTables&, const ControlFlowPolicy&,
                                      Reporter&);

// One kind of rewriting to its fixed point, as the joint driver does it.
ClosedJaxpr if_convert_conds(const ClosedJaxpr&, const RelevanceTables&, const ControlFlowPolicy&, Reporter&);
ClosedJaxpr unroll_inner_scans(const ClosedJaxpr&, const RelevanceTables&, const ControlFlowPolicy&,
                               Reporter&);

}  // namespace etrace
