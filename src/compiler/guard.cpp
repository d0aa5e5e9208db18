#include "compiler/guard.h"

#include <fmt/format.h>

#include "control/loops.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/primitive.h"

namespace etrace {

bool is_control_flow(const Eqn& eqn) { return control_flow(eqn) != ControlFlow::None; }

namespace {

void refuse_weights(const Eqn& eqn, const ModuleInfo& info, Reporter& reporter) {
  for (std::size_t i = 0; i < eqn.in.size(); ++i) {
    const Var* v = as_var(eqn.in[i]);
    const WeightInfo* weight = v != nullptr ? info.weight_of(*v) : nullptr;
    if (weight == nullptr) continue;
    const bool loop = is_while(eqn);
    const std::string op(eqn.prim->name());
    const std::string message =
        loop ? fmt::format(
                   "weight states are used inside a while loop: {} enters it. The number of iterations is "
                   "not fixed, so there is "
                   "no fixed step to trace",
                   to_string(weight->path))
             : fmt::format("weight states are used within a {}: {} enters it, and it could not be flattened",
                           op, to_string(weight->path));
    const std::string note = loop ? "apply the weight outside the loop, or use a fixed-length scan"
                                  : "apply the weight outside, or see the record on why it was not flattened";
    reporter.emit({loop ? DiagnosticKind::WEIGHT_IN_WHILE : DiagnosticKind::WEIGHT_IN_CONTROL_FLOW,
                   DiagnosticLevel::Error,
                   message,
                   op,
                   weight->path,
                   {},
                   {{"op_name", op}, {"invar", i}},
                   note,
                   eqn.origin});
    throw NotSupportedError("control_flow", message + "; " + note, eqn.origin);
  }
}

}  // namespace

void guard_control_flow(const Eqn& eqn, const ModuleInfo& info, Reporter& reporter) {
  if (!is_control_flow(eqn) || info.is_descended(eqn)) return;
  refuse_weights(eqn, info, reporter);
  for (const Var& v : eqn.out) {
    const HiddenInfo* hidden = info.hidden_of_outvar(v);
    if (hidden == nullptr) continue;
    const std::string op(eqn.prim->name());
    if (info.control_flow.while_hidden == ControlFlowPolicy::WhileHidden::Error)
      throw NotSupportedError(
          "control_flow",
          fmt::format("hidden states are produced within a {}: {}; set while_hidden to OpaqueForward, or "
                      "compute the state outside",
                      op, to_string(hidden->path)),
          eqn.origin);
    reporter.emit(
        {DiagnosticKind::CONTROL_FLOW_OPAQUE_FWD,
         DiagnosticLevel::Info,
         fmt::format(
             "hidden state {} is produced by an opaque {}; its derivatives go through the loop as a whole",
             to_string(hidden->path), op),
         op,
         {},
         {},
         {{"op_name", op}, {"evaluator", "forward"}, {"hidden_path", to_string(hidden->path)}},
         {},
         eqn.origin});
  }
}

}  // namespace etrace
