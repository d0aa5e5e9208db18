// The graph stage of `etrace check`: groups, relations and diagnostics under each recurrence scope, compared
// as multisets.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/reference_check.h"
#include "etrace/compiler.h"
#include "etrace/error.h"
#include "etrace/expected.h"
#include "etrace/primitive.h"

namespace etrace::cli {

namespace {

// Facts as lines of text: two graphs agree iff they have the same lines.
using Lines = std::vector<std::string>;

std::string paths_text(const std::vector<StatePath>& paths) {
  Lines names;
  for (const StatePath& p : paths) names.push_back(to_string(p));
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

std::string snap_text(std::int64_t n, std::size_t width, const std::vector<Dims>& neighbours,
                      const std::vector<std::vector<bool>>& valid, bool conservative) {
  std::string text = fmt::format(" snap n={} K={}{}:", n, width, conservative ? " conservative" : "");
  for (std::size_t p = 0; p < neighbours.size(); ++p) {
    text += p ? " |" : "";
    for (std::size_t k = 0; k < neighbours[p].size(); ++k)
      text += fmt::format(" {}{}", neighbours[p][k], valid[p][k] ? "" : "x");
  }
  return text;
}

std::string chain_text(const std::string& key, const std::vector<std::string>& chain) {
  return fmt::format("{}:{}", key, fmt::join(chain, ","));
}

Lines sorted(Lines lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

Lines group_lines(const ExpectedGraph& e) {
  Lines out;
  for (const ExpectedGroup& g : *e.groups) {
    out.push_back(fmt::format("group [{}] varshape {} states {}", paths_text(g.hidden_paths),
                              to_string(Shape(g.varshape)), g.num_state));
    if (g.snap)
      out.back() += snap_text(g.snap->n, static_cast<std::size_t>(g.snap->num_neighbour), g.snap->neighbours,
                              g.snap->valid, g.snap->conservative);
  }
  return sorted(out);
}

Lines group_lines(const ETraceGraph& graph) {
  Lines out;
  for (const HiddenGroup& g : graph.hidden_groups) {
    out.push_back(fmt::format("group [{}] varshape {} states {}", paths_text(g.hidden_paths),
                              to_string(g.varshape()), g.num_state()));
    if (g.snap)
      out.back() += snap_text(g.snap->n, g.snap->num_neighbour(), g.snap->neighbours, g.snap->valid,
                              g.snap->conservative);
  }
  return sorted(out);
}

struct RelationFacts {
  std::string primitive, weight, x_shape, y_shape;
  std::vector<StatePath> hidden;
  Lines trainables, groups, classes, chains;

  std::string line() const {
    return fmt::format("relation {} of {} -> [{}] in {} classes {} trainables {} chains {} x {} y {}",
                       primitive, weight, paths_text(hidden), fmt::join(sorted(groups), "+"),
                       fmt::join(sorted(classes), ","), fmt::join(sorted(trainables), ","),
                       fmt::join(sorted(chains), ";"), x_shape, y_shape);
  }
};

Lines relation_lines(const ExpectedGraph& e) {
  Lines out;
  for (const ExpectedRelation& r : *e.relations) {
    RelationFacts f{r.primitive,
                    to_string(r.weight_path),
                    r.x_shape ? to_string(Shape(*r.x_shape)) : "none",
                    to_string(Shape(r.y_shape)),
                    r.hidden_paths,
                    {},
                    {},
                    {},
                    {}};
    for (const auto& [key, t] : r.trainable)
      f.trainables.push_back(fmt::format("{}={}:{}", key, to_string(t.path), t.leaf));
    for (const std::int64_t g : r.groups) {
      if (!e.groups) continue;
      for (const ExpectedGroup& group : *e.groups)
        if (group.index == g) f.groups.push_back("[" + paths_text(group.hidden_paths) + "]");
    }
    for (const auto& [path, c] : r.path_classification) f.classes.push_back(path + "=" + c);
    for (const auto& [key, chain] : r.processing_chains) f.chains.push_back(chain_text(key, chain));
    out.push_back(f.line());
  }
  return sorted(out);
}

Lines relation_lines(const ETraceGraph& graph) {
  Lines out;
  for (const HiddenParamOpRelation& r : graph.hidden_param_op_relations) {
    RelationFacts f{std::string(r.primitive->name()),
                    to_string(r.path()),
                    r.x_var ? to_string(r.x_var->aval.shape) : "none",
                    to_string(r.y_var.aval.shape),
                    r.connected_hidden_paths,
                    {},
                    {},
                    {},
                    {}};
    for (const TrainableSource& t : r.trainables) {
      f.trainables.push_back(fmt::format("{}={}:{}", t.key, to_string(t.path), t.leaf));
      f.chains.push_back(chain_text(t.key, t.processing_chain));
    }
    for (const std::size_t g : r.hidden_groups)
      f.groups.push_back("[" + paths_text(graph.hidden_groups[g].hidden_paths) + "]");
    for (std::size_t i = 0; i < r.connected_hidden_paths.size(); ++i)
      f.classes.push_back(
          fmt::format("{}={}", to_string(r.connected_hidden_paths[i]), name(r.path_classification[i])));
    out.push_back(f.line());
  }
  return sorted(out);
}

std::string record_line(std::string_view kind, std::string_view level, const std::optional<StatePath>& weight,
                        const std::vector<StatePath>& hidden) {
  return fmt::format("record {} {} weight {} hidden [{}]", level, kind, weight ? to_string(*weight) : "none",
                     paths_text(hidden));
}

Lines diagnostic_lines(const ExpectedGraph& e) {
  Lines out;
  for (const ExpectedDiagnostic& d : *e.diagnostics)
    out.push_back(record_line(d.kind, d.level, d.weight_path, d.hidden_paths));
  return sorted(out);
}

// What the reference does not say is left aside, and a readout, of which it warns, is no matter for a warning
// here.
Lines diagnostic_lines(const ETraceGraph& graph) {
  Lines out;
  for (const CompilationRecord& r : graph.diagnostics) {
    if (r.kind == DiagnosticKind::RECURRENCE_DROPPED || r.kind == DiagnosticKind::DIAGONAL_PRODUCT_KEPT ||
        r.kind == DiagnosticKind::TRACE_WITHOUT_SIGNAL)
      continue;
    const bool readout = r.kind == DiagnosticKind::RELATION_EXCLUDED_NON_TEMPORAL;
    out.push_back(record_line(name(r.kind), name(readout ? DiagnosticLevel::Warning : r.level), r.weight_path,
                              r.hidden_paths));
  }
  return sorted(out);
}

// Lines of one side that the other lacks.
std::optional<std::string> compare(const Lines& found, const Lines& expected) {
  Lines missing, extra;
  std::set_difference(expected.begin(), expected.end(), found.begin(), found.end(),
                      std::back_inserter(missing));
  std::set_difference(found.begin(), found.end(), expected.begin(), expected.end(),
                      std::back_inserter(extra));
  if (missing.empty() && extra.empty()) return std::nullopt;
  std::string text;
  if (!missing.empty()) text += fmt::format("missing: {}", fmt::join(missing, " | "));
  if (!extra.empty())
    text += fmt::format("{}not expected: {}", text.empty() ? "" : "; ", fmt::join(extra, " | "));
  return text;
}

std::optional<CompileOptions> options_for(const std::string& scope, const CheckOptions& check) {
  CompileOptions options;
  options.compat = check.compat == "braintrace" ? Compat::Braintrace : Compat::None;
  if (scope == "diagonal") return options;
  options.include_recurrent_mixing = true;
  if (scope == "coupled") return options;
  if (scope.rfind("SnAp", 0) != 0 || scope.size() < 5 ||
      !std::all_of(scope.begin() + 4, scope.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
    return std::nullopt;
  options.sparse_n = std::stoll(scope.substr(4));
  return options;
}

}  // namespace

StageResult check_graph(const Model& m, const CheckOptions& check) {
  if (!m.expected || !m.expected->graphs || m.expected->graphs->empty())
    return {{}, "the file carries no graphs"};
  for (const auto& [scope, expected] : *m.expected->graphs) {
    const std::optional<CompileOptions> options = options_for(scope, check);
    if (!options) return {{}, "scope " + scope + " is not known"};
    const ETraceGraph graph = compile_etrace_graph(m, *options);
    std::optional<std::string> difference;
    if (expected.groups) difference = compare(group_lines(graph), group_lines(expected));
    if (!difference && expected.relations)
      difference = compare(relation_lines(graph), relation_lines(expected));
    if (!difference && expected.diagnostics)
      difference = compare(diagnostic_lines(graph), diagnostic_lines(expected));
    if (difference) return {fmt::format("scope {}: {}", scope, *difference), {}};
  }
  return {};
}

}  // namespace etrace::cli
