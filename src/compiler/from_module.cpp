// The passes on a module: its step is traced first.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/pipeline.h"
#include "etrace/error.h"

namespace etrace {

namespace {

// What the model does not hold is neither trained nor reset nor written to files.
void require_held(const TracedStep& step) {
  for (const State* s : step.touched) {
    const bool carried = is_a(s->kind(), StateKind::Param) || is_a(s->kind(), StateKind::ShortTerm);
    const auto record = std::find_if(step.model.inputs.begin(), step.model.inputs.end(),
                                     [&](const InputRecord& in) { return in.place.lock().get() == s; });
    if (!carried || record == step.model.inputs.end() ||
        std::find(step.unknown.begin(), step.unknown.end(), record->path) == step.unknown.end())
      continue;
    const std::string what = s->name_in_owner().empty() ? "" : " '" + s->name_in_owner() + "'";
    throw CompilationError(
        "compile",
        fmt::format("the step uses a {}{} of type {} that is not of the model: it stands on an object that "
                    "is no module, or on one that is no child. It would be neither trained nor reset nor "
                    "saved. Make it a member of a module, and the object that holds it a Module that is a "
                    "child of the model (in Python: class {{…}}(et.Module), as an attribute of the model)",
                    s->type(), what, to_string(s->avals().front())));
  }
}

void report_states(const TracedStep& step, Reporter& reporter) {
  require_held(step);
  for (const StatePath& path : step.untouched)
    reporter.emit(
        {DiagnosticKind::STATE_MISMATCH,
         DiagnosticLevel::Warning,
         fmt::format("state {} of the module is neither read nor written by the step", to_string(path)),
         {},
         path,
         {},
         {{"direction", "retrieved_not_in_compiled"}, {"state_path", to_string(path)}},
         "remove it, or use it in update",
         {}});
  for (const StatePath& path : step.unknown)
    reporter.emit(
        {DiagnosticKind::STATE_MISMATCH,
         DiagnosticLevel::Warning,
         fmt::format("the step uses a state that the module does not hold; it is called {}", to_string(path)),
         {},
         {},
         {},
         {{"direction", "compiled_not_in_retrieved"}, {"state", to_string(path)}},
         "make it a member of the module",
         {}});
}

Model trace(Module& module, ArraySpan example, Reporter& reporter) {
  TracedStep step = trace_step(module, example);
  report_states(step, reporter);
  return std::move(step.model);
}

}  // namespace

ETraceGraph compile_etrace_graph(const TracedStep& step, const CompileOptions& options) {
  Reporter reporter;
  report_states(step, reporter);
  return compile_traced_step(step.model, options, std::move(reporter));
}

ETraceGraph compile_etrace_graph(Module& module, ArraySpan example, const CompileOptions& options) {
  return compile_etrace_graph(trace_step(module, example), options);
}

ModuleInfo extract_module_info(Module& module, ArraySpan example, Reporter& reporter,
                               const CompileOptions& options) {
  return extract_module_info(trace(module, example, reporter), reporter, options);
}

std::vector<HiddenGroup> find_hidden_groups_from_module(Module& module, ArraySpan example, Reporter& reporter,
                                                        const CompileOptions& options) {
  return find_hidden_groups_from_minfo(extract_module_info(module, example, reporter, options), reporter,
                                       options);
}

std::vector<HiddenParamOpRelation> find_hidden_param_op_relations_from_module(Module& module,
                                                                              ArraySpan example,
                                                                              Reporter& reporter,
                                                                              const CompileOptions& options) {
  const ModuleInfo info = extract_module_info(module, example, reporter, options);
  return find_hidden_param_op_relations_from_minfo(
      info, find_hidden_groups_from_minfo(info, reporter, options), reporter, options);
}

HiddenPerturbation add_hidden_perturbation_in_module(Module& module, ArraySpan example, Reporter& reporter,
                                                     const CompileOptions& options) {
  return add_hidden_perturbation_from_minfo(extract_module_info(module, example, reporter, options), reporter,
                                            options);
}

ETraceGraph compile_etrace_graph(Module& module, const Array& example, const CompileOptions& options) {
  return compile_etrace_graph(module, ArraySpan(&example, 1), options);
}

}  // namespace etrace
