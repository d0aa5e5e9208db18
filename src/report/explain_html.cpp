// An ETraceGraph as one page that loads nothing: drawing, tables, diagnostics, trace memory, program. All of
// it is plain HTML; the script only adds highlighting. Every text that comes from the model passes through
// escape_html.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/diagnostic_address.h"
#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "etrace/etp.h"
#include "etrace/explain.h"
#include "etrace/version.h"
#include "report/explain_drawing.h"
#include "report/explain_view.h"
#include "report/page_parts.h"
#include "report/web/explain_script.h"
#include "report/web/explain_style.h"

namespace etrace {

namespace {

using page::cell, page::table, page::tag;

std::string code(std::string_view text) { return fmt::format("<code>{}</code>", escape_html(text)); }
std::string div(std::string_view inner, std::string_view css = "") {
  return css.empty() ? fmt::format("<div>{}</div>", inner)
                     : fmt::format("<div class=\"{}\">{}</div>", css, inner);
}
std::string program_details(std::string_view summary, const Jaxpr& program) {
  return fmt::format("<details><summary>{}</summary><pre>{}</pre></details>", escape_html(summary),
                     escape_html(to_string(program)));
}

std::string group_links(const std::vector<std::size_t>& groups) {
  std::vector<std::string> parts;
  for (const std::size_t g : groups) parts.push_back(fmt::format("<a href=\"#group-{0}\">group {0}</a>", g));
  return join(parts);
}
std::string equation_link(std::size_t i) {
  return fmt::format("<a href=\"#equation-{0}\">equation {0}</a>", i);
}

// A section of the page; its title also stands in the navigation.
struct Section {
  std::string_view id, title;
  std::string note, body;
};

class Page {
 public:
  explicit Page(const ETraceGraph& graph) : v_(graph), graph_(graph) {}

  std::string html() const {
    std::vector<Section> sections;
    for (Section s :
         {drawing(), relations(), excluded(), groups(), recurrence(), memory(), diagnostics(), program()})
      if (!s.body.empty()) sections.push_back(std::move(s));
    std::string nav, body;
    for (const Section& s : sections) {
      nav += fmt::format("<li><a href=\"#{}\">{}</a></li>", s.id, s.title);
      body += fmt::format(
          "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 "
          "id=\"{0}-title\">{1}</h2>\n{2}{3}\n</section>\n",
          s.id, s.title, s.note.empty() ? "" : fmt::format("<p class=\"note\">{}</p>\n", s.note), s.body);
    }
    const Model& model = graph_.module_info.model;
    const std::string title = escape_html(model.name.empty() ? "Compiled model" : model.name);
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"generator\" content=\"etrace {0}\">\n<title>{1} · "
        "etrace</title>\n<style>{2}</style>\n</head>\n<body>\n"
        "<header>\n<p class=\"kicker\">Eligibility-trace graph</p>\n<h1>{1}</h1>\n<p "
        "class=\"lead\">{3}</p>\n{4}{5}"
        "<nav aria-label=\"Sections\"><ul>{6}</ul></nav>\n</header>\n<main>\n{7}</main>\n"
        "<footer>Written by etrace {0}. This page loads nothing from "
        "elsewhere.</footer>\n<script>{8}</script>\n</body>\n</html>\n",
        version(), title, kExplainStyle, escape_html(v_.summary()), about(model), tiles(), nav, body,
        kExplainScript);
  }

 private:
  static std::string about(const Model& model) {
    std::string out;
    if (!model.source.empty()) out += fmt::format("<p class=\"sub\">{}</p>\n", escape_html(model.source));
    if (!model.equations.empty())
      out += fmt::format("<pre class=\"model\">{}</pre>\n", escape_html(model.equations));
    return out;
  }

  std::string tiles() const {
    std::string out = "<dl class=\"tiles\">\n";
    const auto tile = [&](std::string_view what, const std::string& value, std::string_view css = "") {
      out += fmt::format("<div class=\"{}\"><dt>{}</dt><dd>{}</dd></div>\n", css, what, value);
    };
    tile("parameters learned online", fmt::format("{} / {}", v_.num_learned(), v_.num_leaves()));
    tile(v_.relations.size() == 1 ? "operator with a trace" : "operators with a trace",
         grouped(static_cast<std::int64_t>(v_.relations.size())));
    tile(graph_.hidden_groups.size() == 1 ? "hidden group" : "hidden groups",
         grouped(static_cast<std::int64_t>(graph_.hidden_groups.size())));
    if (!v_.memory.empty()) {
      const auto [least, most] = std::minmax_element(
          v_.memory.begin(), v_.memory.end(),
          [](const auto& a, const auto& b) { return a.memory.total() < b.memory.total(); });
      tile("smallest trace: " + short_list(least->rules, 2),
           bytes_text(least->memory.total() * v_.number_bytes));
      tile("largest trace: " + short_list(most->rules, 2),
           bytes_text(most->memory.total() * v_.number_bytes));
    }
    tile(v_.report.warnings == 1 ? "warning" : "warnings",
         grouped(static_cast<std::int64_t>(v_.report.warnings)), v_.report.warnings > 0 ? "warning" : "");
    if (v_.report.errors > 0) tile("errors", grouped(static_cast<std::int64_t>(v_.report.errors)), "error");
    return out + "</dl>\n";
  }

  // A drawing that is taller than a screen can be shown as a whole, and a very tall one is at first.
  Section drawing() const {
    return {"graph", "Graph",
            "Each weight acts through an operator on the states of a hidden group. A trace follows that "
            "influence "
            "through time.",
            graph_figure(v_, GraphLinks::Below)};
  }

  std::string trainables(const HiddenParamOpRelation& r) const {
    std::string out;
    for (const TrainableSource& t : r.trainables) {
      out += div(fmt::format("{} ← {}", code(t.key), code(v_.source_text(t))));
      if (!t.processing_chain.empty())
        out += div("processed by " + code(join(t.processing_chain, " → ")), "sub") +
               (t.processing.outs.empty() ? "" : program_details("program", t.processing));
    }
    return out;
  }

  std::string reaches(const HiddenParamOpRelation& r) const {
    std::string out;
    for (std::size_t i = 0; i < r.connected_hidden_paths.size(); ++i)
      out += div(fmt::format("{} {}", code(to_string(r.connected_hidden_paths[i])),
                             tag(css_class(r.path_classification[i]), name(r.path_classification[i]))));
    out += div("in " + group_links(r.hidden_groups), "sub");
    for (std::size_t i = 0; i < r.y_to_hidden_group_jaxprs.size(); ++i) {
      if (i < r.tail_reasons.size() && !r.tail_reasons[i].empty())
        out += div("positions move on the way: " + escape_html(r.tail_reasons[i]), "sub");
      out += program_details(fmt::format("tail to group {}, {}", r.hidden_groups[i],
                                         counted(r.y_to_hidden_group_jaxprs[i].eqns.size(), "equation")),
                             r.y_to_hidden_group_jaxprs[i]);
    }
    return out;
  }

  Section relations() const {
    std::string rows;
    for (std::size_t i = 0; i < v_.relations.size(); ++i) {
      const ExplainView::Relation& r = v_.relations[i];
      const HiddenParamOpRelation& info = *r.info;
      std::string op = div(code(info.primitive->name()));
      if (r.equation) op += div(equation_link(*r.equation), "sub");
      if (info.control_flow_context)
        op += div(fmt::format("inside a loop of {}", info.control_flow_context->length), "sub");
      std::string data =
          div(info.x_var ? fmt::format("<span class=\"sub\">x</span> {}", code(to_string(info.x_var->aval)))
                         : "no data input");
      for (const ExplainView::Read& read : r.reads)
        data += div(fmt::format("reads <a href=\"#group-{0}\">group {0}</a> at {1}", read.group,
                                read.previous ? "t−1" : "t"),
                    "sub");
      data += div(fmt::format("<span class=\"sub\">y</span> {}", code(to_string(info.y_var.aval))));
      rows += fmt::format("<tr role=\"row\" id=\"relation-{}\">{}{}{}{}</tr>\n", i,
                          cell("trainable", weight_anchors(r, i) + trainables(info)), cell("operator", op),
                          cell("data", data), cell("reaches", reaches(info)));
    }
    if (rows.empty())
      return {"relations", "Learned online", "", "<p>No weight of this model is learned online.</p>"};
    return {"relations", "Learned online",
            "One row per operator: what it trains, what it reads, and the hidden states it reaches.",
            table("Relations", {"Trainable", "Operator", "Data", "Reaches"}, rows)};
  }

  bool first_row_of(std::size_t weight, std::size_t relation) const {
    return v_.weights[weight].relations.front() == relation;
  }
  // The drawing links to #weight-i; a learned weight is found in its first relation.
  std::string weight_anchors(const ExplainView::Relation& r, std::size_t index) const {
    std::string out;
    for (const std::size_t w : r.weights)
      if (first_row_of(w, index)) out += fmt::format("<span id=\"weight-{}\"></span>", w);
    return out;
  }

  Section excluded() const {
    std::string body;
    for (std::size_t i = 0; i < v_.weights.size(); ++i) {
      const ExplainView::Weight& w = v_.weights[i];
      if (w.learned()) continue;
      body += fmt::format(
          "<article id=\"weight-{}\"><h3>{}</h3>{}{}</article>\n", i, escape_html(to_string(w.info->path)),
          w.reason ? tag("warning", name(*w.reason)) + "<p>" + escape_html(w.why()) + "</p>"
                   : tag("quiet", kNoOperator),
          w.advice().empty() ? "" : fmt::format("<p class=\"todo\">{}</p>", escape_html(w.advice())));
    }
    return {"excluded", "Not learned online", fmt::format("Each of these {}.", kInstantOnly),
            body.empty() ? body : "<div class=\"apart-list\">\n" + body + "</div>"};
  }

  Section groups() const {
    std::string rows;
    for (const HiddenGroup& g : graph_.hidden_groups) {
      std::string states;
      for (const HiddenInfo& h : g.hidden_states)
        states += div(fmt::format("{} <span class=\"sub\">{} {}</span>", code(to_string(h.path)),
                                  escape_html(h.type), escape_html(to_string(h.invar.aval))));
      const std::string size = div(fmt::format("{} × {}", code(to_string(g.varshape())),
                                               counted(static_cast<std::size_t>(g.num_state()), "state")));
      rows += fmt::format(
          "<tr role=\"row\" id=\"group-{0}\"><th role=\"rowheader\" scope=\"row\">group "
          "{0}</th>{1}{2}{3}</tr>\n",
          g.index, cell("states", states), cell("size", size),
          cell("recurrence",
               div(escape_html(v_.recurrence(g))) +
                   program_details(
                       fmt::format("transition, {}", counted(g.transition_jaxpr.eqns.size(), "equation")),
                       g.transition_jaxpr)));
    }
    std::string outside;
    if (!v_.report.dynamic_states.empty())
      outside = fmt::format("<p class=\"note\">Carried from step to step, in no group: {}</p>",
                            code(path_list(v_.report.dynamic_states)));
    if (rows.empty()) return {"groups", "Hidden groups", "", outside};
    return {"groups", "Hidden groups",
            "States that are updated together form one group; its Jacobian carries the traces from one step "
            "to the next.",
            table("Hidden groups", {"Group", "States", "Positions", "Recurrence"}, rows) + outside};
  }

  // What no trace follows, and what other scopes would keep of it.
  Section recurrence() const {
    std::string ways, rows;
    for (const DroppedWay* way : v_.dropped())
      ways += div(fmt::format("{} at t−1 → {} at t, through {}", code(path_list(way->from)),
                              code(path_list(way->to)), escape_html(operator_text(*way))));
    for (const ScopeCost& c : v_.scopes) {
      std::string rules;
      for (const RulesAlike& a : rules_alike(c.memory))
        rules += div(fmt::format("{} <span class=\"sub\">{} numbers</span>", escape_html(join(a.rules)),
                                 grouped(a.memory.total())));
      const std::string keeps = c.refused.empty() ? c.keeps : "refused for this model: " + c.refused;
      rows += fmt::format("<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{}</th>{}{}</tr>\n", c.scope,
                          cell("keeps of it", div(escape_html(keeps))),
                          cell("rules, and what they store", rules));
    }
    if (ways.empty()) return {"recurrence", "Left out of the recurrence", "", ""};
    std::string body = "<div class=\"card\">" + ways + "</div>\n";
    if (!rows.empty()) body += table("Scopes", {"Scope", "Keeps of it", "Rules, and what they store"}, rows);
    return {"recurrence", "Left out of the recurrence",
            "Ways by which hidden states act on the next step and that no trace follows in this scope.",
            body};
  }

  // One bar per kind of rule.
  std::string bars(const std::function<std::int64_t(const RulesAlike&)>& numbers, std::int64_t full) const {
    std::string out;
    for (std::size_t i = 0; i < v_.memory.size(); ++i) {
      const std::int64_t n = numbers(v_.memory[i]);
      out += fmt::format(
          "<div class=\"bar-row\"><span class=\"rule\">{}</span><span class=\"track\"><span class=\"fill "
          "c{}\" style=\"width:{:.2f}%\"></span></span>"
          "<span class=\"value\">{} numbers · {}</span></div>",
          escape_html(join(v_.memory[i].rules)), i % 4,
          100.0 * static_cast<double>(n) / static_cast<double>(std::max<std::int64_t>(1, full)), grouped(n),
          bytes_text(n * v_.number_bytes));
    }
    return out;
  }
  Section memory() const {
    std::int64_t most = 0, all = 0;
    for (const RulesAlike& a : v_.memory) {
      for (const std::int64_t n : a.memory.relations) most = std::max(most, n);
      all = std::max(all, a.memory.total());
    }
    std::string body;
    for (std::size_t i = 0; i < v_.relations.size(); ++i) {
      const ExplainView::Relation& r = v_.relations[i];
      std::vector<std::string> slots;
      for (const auto& s : r.slots.slots) slots.push_back(s.key + " " + to_string(s.shape));
      const std::string how =
          (r.slots.batch > 1 ? fmt::format("{} samples × ", r.slots.batch) : "") + join(slots, " + ");
      body += fmt::format(
          "<div><div class=\"name\"><a href=\"#relation-{}\">{}</a><span "
          "class=\"sub\">{}</span></div>{}</div>\n",
          i, code(to_string(r.info->path())), escape_html(how),
          bars([&](const RulesAlike& a) { return a.memory.relations[i]; }, most));
    }
    if (body.empty()) return {"memory", "Trace memory", "", ""};
    const std::string total = "<div class=\"total\"><div class=\"name\"><strong>In all</strong></div>" +
                              bars([](const RulesAlike& a) { return a.memory.total(); }, all) + "</div>";
    body = "<div class=\"card\"><div class=\"bars\">\n" + body + "</div>\n" + total + "</div>";
    return {"memory", "Trace memory",
            "Numbers that each rule of this scope keeps between steps, whatever the length of the sequence.",
            body};
  }

  static std::string record(const CompilationRecord& r) {
    std::string facts;
    const auto fact = [&](std::string_view what, const std::string& value) {
      if (!value.empty()) facts += fmt::format("{}{} {}", facts.empty() ? "" : " · ", what, code(value));
    };
    fact("weight", r.weight_path ? to_string(*r.weight_path) : "");
    fact("hidden", path_list(r.hidden_paths));
    fact("operator", r.primitive);
    for (const auto& [key, value] : r.context) fact(escape_html(key), to_string(value));
    fact("at", to_string(r.origin));
    fact("see", diagnostic_address(r.kind));
    return fmt::format("<li class=\"{0}\">{1} <span class=\"mono\">{2}</span><p>{3}</p>{4}{5}</li>\n",
                       name(r.level), tag(name(r.level), name(r.level)), name(r.kind), escape_html(r.message),
                       r.note.empty() ? "" : fmt::format("<p class=\"todo\">{}</p>", escape_html(r.note)),
                       facts.empty() ? "" : fmt::format("<p class=\"sub\">{}</p>", facts));
  }

  Section diagnostics() const {
    std::string list, filters;
    for (const DiagnosticLevel level :
         {DiagnosticLevel::Error, DiagnosticLevel::Warning, DiagnosticLevel::Info}) {
      std::size_t count = 0;
      for (const CompilationRecord& r : graph_.diagnostics)
        if (r.level == level) {
          list += record(r);
          ++count;
        }
      if (count > 0)
        filters += fmt::format("<label><input type=\"checkbox\" id=\"show-{0}\" checked> {0} ({1})</label>",
                               name(level), count);
    }
    if (list.empty()) return {"diagnostics", "Diagnostics", "", "<p>The compiler had nothing to report.</p>"};
    return {"diagnostics", "Diagnostics", "Every decision of the compiler, the serious ones first.",
            "<fieldset class=\"filter\"><legend>Show</legend>" + filters +
                "</fieldset>\n<ol class=\"records\">\n" + list + "</ol>"};
  }

  // "a:f32[3] = prim[…] b c" with names, types and the operation told apart.
  static std::string coloured(const std::string& text, std::string_view primitive) {
    const std::size_t equals = text.find("= ");
    if (equals == std::string::npos || text.compare(equals + 2, primitive.size(), primitive) != 0)
      return escape_html(text);
    std::string out;
    std::size_t at = 0;
    while (at < equals) {  // results
      const std::size_t colon = text.find(':', at), end = std::min(text.find(' ', at), equals);
      if (colon < end)
        out += escape_html(text.substr(at, colon - at)) + "<span class=\"type\">" +
               escape_html(text.substr(colon, end - colon)) + "</span>";
      else
        out += escape_html(text.substr(at, end - at));
      if (end < equals) out += ' ';
      at = end + 1;
    }
    return out + "= <span class=\"prim\">" + escape_html(primitive) + "</span>" +
           escape_html(text.substr(equals + 2 + primitive.size()));
  }

  std::string inputs() const {
    const std::vector<Var>& vars = graph_.module_info.jaxpr().invars;
    const std::vector<InputRecord>& records = graph_.module_info.model.inputs;
    if (vars.size() != records.size()) return "";
    std::string rows;
    for (std::size_t i = 0; i < vars.size(); ++i) {
      const InputRecord& r = records[i];
      const std::string what = r.role == Role::Arg
                                   ? fmt::format("argument {}", r.index)
                                   : fmt::format("{} {}", name(r.role), leaf_text(r.path, r.leaf_key));
      rows += fmt::format("<tr role=\"row\">{}{}{}</tr>", cell("name", code(v_.program.name_of(vars[i]))),
                          cell("type", code(to_string(vars[i].aval))), cell("what", escape_html(what)));
    }
    return "<details><summary>Inputs of the program</summary>" +
           table("Inputs", {"Name", "Type", "What it is"}, rows) + "</details>";
  }

  Section program() const {
    const std::vector<Eqn>& eqns = graph_.module_info.jaxpr().eqns;
    std::unordered_map<std::uint64_t, std::string> written;
    for (const HiddenInfo& h : graph_.module_info.hidden) written.emplace(h.outvar.id, to_string(h.path));
    std::string body =
        fmt::format("<li class=\"plain\"><span class=\"no\"></span><span class=\"text\">{}</span></li>\n",
                    escape_html(v_.program.head));
    for (std::size_t i = 0; i < eqns.size(); ++i) {
      std::string links;
      for (const std::size_t r : v_.relations_at[i])
        links += fmt::format("<a href=\"#relation-{0}\">relation {0}</a>", r);
      for (const Var& out : eqns[i].out)
        if (const auto it = written.find(out.id); it != written.end())
          links += fmt::format("{}writes {}", links.empty() ? "" : " · ", code(it->second));
      const bool traced = !v_.relations_at[i].empty(), etp = is_etp(*eqns[i].prim) || traced;
      if (etp && !traced) links += fmt::format("{}not learned online", links.empty() ? "" : " · ");
      const std::string origin = to_string(eqns[i].origin);
      body += fmt::format(
          "<li id=\"equation-{0}\"{1}{2}><span class=\"no\">{0}</span><span "
          "class=\"text\">{3}</span>{4}</li>\n",
          i, etp ? (traced ? " class=\"etp\"" : " class=\"etp out\"") : "",
          origin.empty() ? "" : fmt::format(" title=\"{}\"", escape_html(origin)),
          coloured(v_.program.equations[i], eqns[i].prim->name()),
          links.empty() ? "" : "<span class=\"links\">" + links + "</span>");
    }
    body += fmt::format("<li class=\"plain\"><span class=\"no\"></span><span class=\"text\">{}</span></li>",
                        escape_html(v_.program.foot));
    return {"program", "Program",
            "One step of the model as the compiler sees it. Marked equations are trainable operators.",
            "<div class=\"scroll\"><ol class=\"program\">\n" + body + "</ol></div>\n" + inputs()};
  }

  ExplainView v_;
  const ETraceGraph& graph_;
};

}  // namespace

std::string explain_html(const ETraceGraph& graph) { return Page(graph).html(); }

}  // namespace etrace
