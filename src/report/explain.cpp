// ETraceGraph::explain: what is learned online through which operator into which hidden group, what is not
// and why, and what to do about it.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/diagnostic_address.h"
#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "etrace/graph.h"
#include "etrace/primitive.h"
#include "report/explain_view.h"

namespace etrace {

namespace {

constexpr std::size_t kWidth = 100;

// `text` broken at spaces, every line indented.
std::string paragraph(std::string_view text, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += margin + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) flush();
    if (!word.empty()) line += (line.empty() ? "" : " ") + std::string(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  flush();
  return out;
}

std::string trainables_text(const ExplainView& v, const HiddenParamOpRelation& r) {
  std::vector<std::string> parts;
  for (const TrainableSource& t : r.trainables) {
    std::string part = t.key + " from " + v.source_text(t);
    if (!t.processing_chain.empty()) part += " by " + join(t.processing_chain);
    parts.push_back(std::move(part));
  }
  return join(parts, "; ");
}

std::string relation_text(const ExplainView& v, std::size_t index) {
  const ExplainView::Relation& r = v.relations[index];
  const HiddenParamOpRelation& info = *r.info;
  std::string out = fmt::format("  {}  through {} into {}\n", join(r.leaves(v)), info.primitive->name(),
                                group_list(info.hidden_groups));
  out += fmt::format("      {}{} -> y {}", r.equation ? fmt::format("equation {}: ", *r.equation) : "",
                     info.x_var ? "x " + to_string(info.x_var->aval) : "no data input",
                     to_string(info.y_var.aval));
  for (const ExplainView::Read& read : r.reads)
    out += fmt::format("; x reads group {} at {}", read.group, read.previous ? "t-1" : "t");
  out += "\n" + paragraph(trainables_text(v, info), 6);
  for (std::size_t i = 0; i < info.connected_hidden_paths.size(); ++i)
    out += fmt::format("      -> {}: {}\n", to_string(info.connected_hidden_paths[i]),
                       name(info.path_classification[i]));
  for (const CompilationRecord& record : v.graph.diagnostics) {
    if (record.weight_path != info.path()) continue;
    if (record.kind == DiagnosticKind::RELATION_EXCLUDED_SHAPE_MISMATCH)
      out +=
          paragraph(fmt::format("not traced into {}: {}", path_list(record.hidden_paths), record.message), 6);
    if (record.kind == DiagnosticKind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT)
      out += paragraph("another use is not traced: " + record.message, 6);
  }
  for (std::size_t i = 0; i < info.tail_reasons.size(); ++i)
    if (!info.tail_reasons[i].empty())
      out += paragraph(fmt::format("tail to group {}: {}", info.hidden_groups[i], info.tail_reasons[i]), 6);
  if (info.control_flow_context)
    out += fmt::format("      traced inside a loop of {} iterations\n", info.control_flow_context->length);
  return out;
}

std::string excluded_text(const ExplainView::Weight& w) {
  std::string out =
      fmt::format("  {}  {}\n", join(w.excluded_leaves()), w.reason ? name(*w.reason) : kNoOperator);
  if (w.reason) out += paragraph(w.why(), 6);
  if (!w.advice().empty()) out += paragraph("To do: " + w.advice(), 6);
  return out;
}

std::string group_text(const ExplainView& v, const HiddenGroup& g) {
  return fmt::format("  group {}: {}\n", g.index, path_list(g.hidden_paths)) +
         paragraph(fmt::format("{} x {}; {}", to_string(g.varshape()),
                               counted(static_cast<std::size_t>(g.num_state()), "state"), v.recurrence(g)),
                   6);
}

// The ways through one equation together: "a, b -> c  through etp_mv of W".
std::string dropped_text(const ExplainView& v) {
  std::string out;
  for (const HiddenGroup& g : v.graph.hidden_groups)
    for (const DroppedWay& way : g.dropped)
      out += fmt::format("  {} at t-1 -> {} at t, through {}\n", path_list(way.from), path_list(way.to),
                         operator_text(way));
  return out;
}

// A line per scope and rules that keep the same.
std::string scopes_table(const ExplainView& v) {
  std::size_t width = 8;
  std::vector<std::vector<RulesAlike>> rules;
  for (const ScopeCost& c : v.scopes) {
    rules.push_back(rules_alike(c.memory));
    for (const RulesAlike& a : rules.back()) width = std::max(width, join(a.rules).size());
  }
  std::string out =
      fmt::format("  {:<10}{:>12}  {:<{}}  {}\n", "scope", "numbers", "of rule", width, "keeps");
  for (std::size_t i = 0; i < v.scopes.size(); ++i) {
    const ScopeCost& c = v.scopes[i];
    if (!c.refused.empty()) {
      out += paragraph(fmt::format("{}: refused for this model: {}", c.scope, c.refused), 2);
      continue;
    }
    for (std::size_t k = 0; k < rules[i].size(); ++k) {
      out += fmt::format("  {:<10}{:>12}  ", k == 0 ? c.scope : "", grouped(rules[i][k].memory.total()));
      out += k == 0 ? fmt::format("{:<{}}  {}\n", join(rules[i][k].rules), width, c.keeps)
                    : join(rules[i][k].rules) + "\n";
    }
  }
  return out;
}

// A column for rules that keep the same, their names above it.
std::string memory_text(const ExplainView& v) {
  std::size_t width = 8, names = 1;
  for (const ExplainView::Relation& r : v.relations) width = std::max(width, join(r.leaves(v)).size());
  for (const RulesAlike& a : v.memory) names = std::max(names, a.rules.size());
  std::string out;
  const auto line = [&](const std::string& head, const auto& cell) {
    std::string text = fmt::format("  {:<{}}", head, width);
    for (const RulesAlike& a : v.memory) text += fmt::format("  {:>15}", cell(a));
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  for (std::size_t i = 0; i < names; ++i)
    line("", [&](const RulesAlike& a) { return i < a.rules.size() ? a.rules[i] : std::string(); });
  for (std::size_t r = 0; r < v.relations.size(); ++r)
    line(join(v.relations[r].leaves(v)), [&](const RulesAlike& a) { return grouped(a.memory.relations[r]); });
  const auto shares = [](const RulesAlike& a) { return a.memory.shared > 0; };
  if (std::any_of(v.memory.begin(), v.memory.end(), shares))
    line("for all of them", [](const RulesAlike& a) { return grouped(a.memory.shared); });
  line("in all", [](const RulesAlike& a) { return grouped(a.memory.total()); });
  return out;
}

// What to do about an excluded weight, and about a way that is left out, stands in its section already.
bool told_above(const ExplainView& v, const CompilationRecord& r) {
  if (r.kind == DiagnosticKind::RECURRENCE_DROPPED) return true;
  return std::any_of(v.weights.begin(), v.weights.end(),
                     [&](const ExplainView::Weight& w) { return w.record == &r; });
}

std::string records_text(const ExplainView& v) {
  std::string out;
  for (const DiagnosticKind kind : all_diagnostic_kinds()) {
    std::string items;
    std::size_t count = 0;
    for (const CompilationRecord& r : v.graph.diagnostics) {
      if (r.kind != kind) continue;
      ++count;
      const std::string place = to_string(r.origin);
      std::string text = paragraph(
          fmt::format("{}: {}{}", name(r.level), r.message, place.empty() ? "" : " (at " + place + ")"), 6);
      text[4] = '-';
      items += text;
      if (!r.note.empty() && !told_above(v, r)) items += paragraph("To do: " + r.note, 6);
    }
    if (count > 0)
      out += fmt::format("  {} ({}): {}\n{}{}", name(kind), count, meaning(kind), items,
                         paragraph("See " + diagnostic_address(kind), 6));
  }
  return out;
}

}  // namespace

std::vector<CompilationRecord> ETraceGraph::explain_records(const Filter& f) const {
  std::vector<CompilationRecord> out;
  for (const CompilationRecord& r : diagnostics) {
    if (f.kind && r.kind != *f.kind) continue;
    if (f.weight_path && r.weight_path != f.weight_path) continue;
    if (f.hidden_path &&
        std::find(r.hidden_paths.begin(), r.hidden_paths.end(), *f.hidden_path) == r.hidden_paths.end())
      continue;
    out.push_back(r);
  }
  return out;
}

std::string ETraceGraph::explain(const std::vector<std::string>& notes) const {
  const ExplainView v(*this);
  std::string out;
  if (!module_info.model.name.empty()) out += module_info.model.name + "\n";
  out += paragraph(v.summary(), 0);
  const auto section = [&](std::string_view title, const std::string& body) {
    if (!body.empty()) out += fmt::format("\n{}\n{}", title, body);
  };
  std::string learned, excluded, groups, dynamic;
  for (std::size_t i = 0; i < v.relations.size(); ++i)
    if (v.relations[i].has_signal) learned += relation_text(v, i);
  for (const ExplainView::Weight& w : v.weights)
    if (!w.excluded_leaves().empty()) excluded += excluded_text(w);
  for (const HiddenGroup& g : hidden_groups) groups += group_text(v, g);
  for (const StatePath& p : v.report.dynamic_states) dynamic += "  " + to_string(p) + "\n";
  section("Learned online", learned);
  section(fmt::format("Not learned online ({})", kInstantOnly), excluded);
  section("Hidden groups", groups);
  section(fmt::format("Left out of the recurrence in scope {}", scope_name(options)), dropped_text(v));
  if (!v.scopes.empty())
    section("What each scope keeps of what is left out, and the numbers it stores", scopes_table(v));
  section("Carried from step to step, in no group", dynamic);
  if (!v.relations.empty()) section("Numbers kept per rule", memory_text(v));
  section("Records by kind", records_text(v));
  for (const std::string& note : notes) out += "\n" + paragraph(note, 0);
  return out;
}

}  // namespace etrace
