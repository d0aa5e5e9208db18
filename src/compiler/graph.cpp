// The pipeline: the four passes in order, and the program extended by every value that a learner will need.
#include "etrace/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/credit.h"
#include "compiler/dropped_ways.h"
#include "compiler/pipeline.h"
#include "compiler/program_index.h"
#include "etrace/error.h"

namespace etrace {

namespace {

void check_options(const CompileOptions& options) {
  if (options.composite && options.compat == Compat::Braintrace)
    throw NotSupportedError("compile",
                            "composite relations are unknown to the reference system; compile "
                            "without compat, or without composite");
  if (!options.sparse_n) return;
  if (*options.sparse_n < 1)
    throw ValueError("compile", fmt::format("sparse_n={}; it must be at least 1", *options.sparse_n));
  if (!options.include_recurrent_mixing)
    throw NotSupportedError(
        "compile",
        "sparse_n needs include_recurrent_mixing: without recurrent products every neighbourhood is K=1");
}

void refuse_drive_into_loop(const HiddenParamOpRelation& r, const std::vector<HiddenGroup>& groups) {
  for (const std::size_t g : r.hidden_groups)
    if (groups[g].descent)
      throw NotSupportedError(
          "compile",
          fmt::format(
              "{} drives group {} of a descended scan from outside the loop; apply the operator inside the "
              "loop, or unroll it with a larger scan_unroll_limit",
              to_string(r.path()), g));
}

// Values that the learner reads after a step, in a fixed order, each once; what the program returns anyway is
// not added.
class OutputExtension {
 public:
  explicit OutputExtension(Jaxpr& jaxpr) : jaxpr_(jaxpr) {
    for (const Atom& a : jaxpr.outs)
      if (const Var* v = as_var(a)) present_.insert(v->id);
  }
  void add(const Var& v) {
    if (present_.insert(v.id).second) jaxpr_.outs.emplace_back(v);
  }
  void add(const std::vector<Var>& vars) {
    for (const Var& v : vars) add(v);
  }

 private:
  Jaxpr& jaxpr_;
  VarIds present_;
};

void extend_outputs(ETraceGraph& graph, const std::vector<Var>& stacked) {
  OutputExtension out(graph.module_info.closed_jaxpr.jaxpr);
  for (const HiddenParamOpRelation& r : graph.hidden_param_op_relations)
    if (!r.control_flow_context && r.x_var) out.add(*r.x_var);
  for (const HiddenParamOpRelation& r : graph.hidden_param_op_relations) {
    if (r.control_flow_context) continue;
    for (const Jaxpr& tail : r.y_to_hidden_group_jaxprs) {
      out.add(tail.constvars);
      out.add(r.y_var);
    }
  }
  for (const HiddenGroup& g : graph.hidden_groups) {
    if (g.descent) continue;
    out.add(g.hidden_invars);
    out.add(g.transition_jaxpr.constvars);
  }
  out.add(stacked);
}

// Where nothing has told the batch of a group, its operators do: a batched one has a sample per index of its
// first axis, and the result of one without a batch is spread over the group's first axis, which it lacks.
void settle_batches(ETraceGraph& graph) {
  for (const HiddenParamOpRelation& r : graph.hidden_param_op_relations)
    for (const std::size_t g : r.hidden_groups) {
      HiddenGroup& group = graph.hidden_groups[g];
      const Shape positions = group.varshape(), &y = r.y_var.aval.shape;
      if (group.batch_size || positions.is_scalar()) continue;
      if (y == (etp_rules(*r.primitive)->batched ? positions : positions.without(0)))
        group.batch_size = positions[0];
    }
  for (const HiddenParamOpRelation& r : graph.composite_relations)
    for (const std::size_t g : r.hidden_groups) {
      HiddenGroup& group = graph.hidden_groups[g];
      if (!group.batch_size && !group.varshape().is_scalar() && etp_rules(*r.primitive)->batched &&
          r.y_var.aval.shape[0] == group.varshape()[0])
        group.batch_size = group.varshape()[0];
    }
}

void enforce_strict(const Reporter& reporter) {
  for (const CompilationRecord& r : reporter.records())
    if (r.level >= DiagnosticLevel::Warning)
      throw CompilationError("compile",
                             fmt::format("strict mode: {} {}: {}{}", name(r.level), name(r.kind), r.message,
                                         r.note.empty() ? "" : " — " + r.note),
                             r.origin);
}

}  // namespace

Passes::Passes(const Model& model, const CompileOptions& options, Reporter& reporter)
    : graph{.options = options}, reporter_(reporter) {
  check_options(options);
  graph.module_info = extract_module_info(model, reporter, options);
  loops_ = descend_scans(graph.module_info, reporter, options);
}

void Passes::find_groups() {
  graph.hidden_groups = find_hidden_groups_from_minfo(graph.module_info, reporter_, graph.options);
  const std::size_t flat = graph.hidden_groups.size();
  for (HiddenGroup& g : loops_.groups) {
    g.index = graph.hidden_groups.size();
    report_dropped_ways(g, graph.options, reporter_);
    graph.hidden_groups.push_back(std::move(g));
  }
  for (HiddenParamOpRelation& r : loops_.relations)
    for (std::size_t& g : r.hidden_groups) g += flat;
}

void Passes::find_relations() {
  auto& relations = graph.hidden_param_op_relations;
  FoundRelations found =
      etrace::find_relations(graph.module_info, graph.hidden_groups, reporter_, graph.options);
  relations = std::move(found.direct);
  graph.composite_relations = std::move(found.composite);
  for (const HiddenParamOpRelation& r : relations) refuse_drive_into_loop(r, graph.hidden_groups);
  for (const HiddenParamOpRelation& r : graph.composite_relations)
    refuse_drive_into_loop(r, graph.hidden_groups);
  std::move(loops_.relations.begin(), loops_.relations.end(), std::back_inserter(relations));
  settle_batches(graph);
}

void Passes::finish() {
  report_traces_without_signal(graph, reporter_);
  extend_outputs(graph, loops_.stacked);
  if (graph.options.include_hidden_perturb)
    graph.hidden_perturb = add_hidden_perturbation_from_minfo(graph.module_info, reporter_, graph.options);
  if (graph.options.strict) enforce_strict(reporter_);
  graph.diagnostics = reporter_.records();
}

ETraceGraph compile_traced_step(const Model& model, const CompileOptions& options, Reporter reporter) {
  try {
    Passes passes(model, options, reporter);
    passes.find_groups();
    passes.find_relations();
    passes.finish();
    return std::move(passes.graph);
  } catch (const CompilationError& e) {
    throw WithRecords<CompilationError>(e, reporter.records());
  } catch (const NotSupportedError& e) {
    throw WithRecords<NotSupportedError>(e, reporter.records());
  } catch (const ValueError& e) {
    throw WithRecords<ValueError>(e, reporter.records());
  }
}

ETraceGraph compile_etrace_graph(const Model& model, const CompileOptions& options) {
  return compile_traced_step(model, options, {});
}

std::vector<const HiddenParamOpRelation*> ETraceGraph::all_relations() const {
  std::vector<const HiddenParamOpRelation*> out;
  for (const HiddenParamOpRelation& r : hidden_param_op_relations) out.push_back(&r);
  for (const HiddenParamOpRelation& r : composite_relations) out.push_back(&r);
  return out;
}

const HiddenGroup* ETraceGraph::hid_path_to_group(const StatePath& path) const {
  for (const HiddenGroup& g : hidden_groups)
    if (std::find(g.hidden_paths.begin(), g.hidden_paths.end(), path) != g.hidden_paths.end()) return &g;
  return nullptr;
}

}  // namespace etrace
