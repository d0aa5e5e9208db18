// An ETraceGraph for Graphviz: weights -> operators -> hidden states, groups as clusters.
#include <fmt/format.h>

#include "compiler/explain_text.h"
#include "etrace/explain.h"
#include "etrace/primitive.h"
#include "report/explain_view.h"

namespace etrace {

namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

// Lines are joined by a line break of Graphviz, which must not be escaped.
std::string label(const std::vector<std::string>& lines) {
  std::vector<std::string> parts;
  for (const std::string& l : lines) {
    const std::string q = in_quotes(l);
    parts.push_back(q.substr(1, q.size() - 2));
  }
  return "\"" + join(parts, "\\n") + "\"";
}

std::string_view edge_style(PathClassification c) {
  switch (c) {
    case PathClassification::AllDirect:
      return "color=\"#0f766e\"";
    case PathClassification::Mixed:
      return "color=\"#b45309\", style=dashed";
    case PathClassification::AllThroughOtherEtp:
      return "color=\"#be123c\", style=dotted";
  }
  return "";
}

}  // namespace

std::string explain_dot(const ETraceGraph& graph) {
  const ExplainView v(graph);
  std::string out = fmt::format(
      "digraph {} {{\n  rankdir=LR;\n  node [fontname=\"monospace\", fontsize=11, shape=box, "
      "style=rounded];\n"
      "  edge [fontname=\"sans-serif\", fontsize=9];\n\n",
      in_quotes(graph.module_info.model.name.empty() ? "etrace" : graph.module_info.model.name));
  std::unordered_map<std::string, std::string> state_node;
  for (const HiddenGroup& g : graph.hidden_groups) {
    out += fmt::format(
        "  subgraph cluster_g{} {{\n    label={};\n    color=\"#1d4ed8\"; style=rounded;\n", g.index,
        label({fmt::format("group {}  {} x {}", g.index, to_string(g.varshape()), g.num_state()),
               g.is_diagonal_recurrence ? "each position by itself" : "positions coupled"}));
    for (std::size_t i = 0; i < g.hidden_paths.size(); ++i) {
      const std::string node = fmt::format("g{}_h{}", g.index, i), path = to_string(g.hidden_paths[i]);
      out += fmt::format("    {} [label={}, shape=ellipse, color=\"#1d4ed8\"];\n", node, in_quotes(path));
      state_node.emplace(path, node);
    }
    out += "  }\n";
    out += fmt::format("  g{0}_h0 -> g{0}_h0 [color=\"#1d4ed8\", label=\"t-1\"];\n", g.index);
  }
  for (std::size_t i = 0; i < v.weights.size(); ++i) {
    const ExplainView::Weight& w = v.weights[i];
    if (w.learned())
      out += fmt::format("  w{} [label={}];\n", i, in_quotes(to_string(w.info->path)));
    else
      out += fmt::format(
          "  w{} [label={}, style=\"rounded,dashed\", color=gray50, fontcolor=gray35, tooltip={}];\n", i,
          label({to_string(w.info->path), std::string(w.reason ? name(*w.reason) : kNoOperator)}),
          in_quotes(w.why()));
  }
  for (std::size_t i = 0; i < v.relations.size(); ++i) {
    const ExplainView::Relation& r = v.relations[i];
    const HiddenParamOpRelation& info = *r.info;
    out += fmt::format(
        "  r{} [label={}, style=filled, fillcolor=\"#f1f5f9\"];\n", i,
        label({std::string(info.primitive->name()),
               (info.x_var ? to_string(info.x_var->aval) + " -> " : "") + to_string(info.y_var.aval)}));
    for (const std::size_t w : r.weights)
      out += fmt::format("  w{} -> r{} [label={}];\n", w, i, in_quotes(join(r.keys_of(v, w))));
    for (std::size_t k = 0; k < info.connected_hidden_paths.size(); ++k)
      if (const auto it = state_node.find(to_string(info.connected_hidden_paths[k])); it != state_node.end())
        out += fmt::format("  r{} -> {} [{}, tooltip={}];\n", i, it->second,
                           edge_style(info.path_classification[k]),
                           in_quotes(name(info.path_classification[k])));
    for (const ExplainView::Read& read : r.reads)
      out += fmt::format("  g{}_h0 -> r{} [color=gray60, style=dashed, constraint=false, label=\"{}\"];\n",
                         read.group, i, read.previous ? "t-1" : "t");
  }
  return out + "}\n";
}

}  // namespace etrace
