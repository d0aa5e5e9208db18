// etrace explain MODEL: what the compiler makes of a model, as text, JSON, a Graphviz drawing or a page; or
// what a pass leaves behind.
#include "etrace/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iostream>

#include "base/nearest.h"
#include "cli/model_choice.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/plan.h"
#include "cli/verbs.h"
#include "compiler/dropped_ways.h"
#include "compiler/pipeline.h"
#include "etrace/error.h"
#include "etrace/primitive.h"
#include "io/json.h"
#include "learn/rules/readout_filter.h"
#include "verify/verify_words.h"

namespace etrace::cli {

namespace {

struct ExplainOptions : ModelChoice {
  ExplainOptions() : ModelChoice("explain", Dtype::F32) {}

  std::string html, scope = "diagonal", compat, dump_after;
  bool json = false, dot = false, strict = false, composite = false;
  int level = 3;
};

// "snap2" -> 2; empty if it is no such word.
std::optional<std::int64_t> snap_order(const std::string& scope) {
  std::int64_t n = 0;
  if (scope.compare(0, 4, "snap") != 0) return std::nullopt;
  const auto [end, error] = std::from_chars(scope.data() + 4, scope.data() + scope.size(), n);
  if (error != std::errc() || end != scope.data() + scope.size() || n < 1) return std::nullopt;
  return n;
}

CompileOptions compile_options(const ExplainOptions& o) {
  CompileOptions c;
  c.include_recurrent_mixing = o.scope != "diagonal";
  c.sparse_n = snap_order(o.scope);
  c.compat = o.compat.empty() ? Compat::None : Compat::Braintrace;
  c.strict = o.strict;
  c.composite = o.composite;
  return c;
}

// What stands behind a heading if the program is that of a loop's body.
std::string inside(const ScanInfo* loop) {
  return loop == nullptr ? "" : fmt::format(", inside a loop of {} steps", loop->length);
}

void print_groups(const std::vector<HiddenGroup>& groups) {
  for (const HiddenGroup& g : groups)
    std::cout << fmt::format("# group {}: transition{}\n{}\n\n", g.index,
                             inside(g.descent ? &g.descent->scan : nullptr), to_string(g.transition_jaxpr));
}

void print_relations(const ETraceGraph& g) {
  const std::vector<const HiddenParamOpRelation*> relations = g.all_relations();
  for (std::size_t i = 0; i < relations.size(); ++i) {
    const HiddenParamOpRelation& r = *relations[i];
    std::cout << fmt::format("# relation {}: {} through {}{}\n", i, to_string(r.path()), r.primitive->name(),
                             inside(r.control_flow_context ? &*r.control_flow_context : nullptr));
    for (const TrainableSource& t : r.trainables)
      if (!t.processing_chain.empty())
        std::cout << fmt::format("# {}: from the parameters to the operand\n{}\n", t.key,
                                 to_string(t.processing));
    for (std::size_t k = 0; k < r.y_to_hidden_group_jaxprs.size(); ++k)
      std::cout << fmt::format("# tail to group {}\n{}\n", r.hidden_groups[k],
                               to_string(r.y_to_hidden_group_jaxprs[k]));
    std::cout << "\n";
  }
}

void print_perturbed(const HiddenPerturbation& p) {
  std::cout << fmt::format("# perturbed: the last {} inputs are added to the hidden states\n{}\n",
                           p.perturb_vars.size(), to_string(p.perturb_jaxpr.jaxpr));
}

void dump_after(const std::string& pass, const Model& model, const CompileOptions& options) {
  if (pass == "graph") {
    const ETraceGraph g = compile_etrace_graph(model, options);
    std::cout << "# program, with every value that a learner needs among its outputs\n"
              << to_string(g.module_info.jaxpr()) << "\n\n";
    print_groups(g.hidden_groups);
    print_relations(g);
    if (g.hidden_perturb) print_perturbed(*g.hidden_perturb);
    return;
  }
  Reporter reporter;
  if (pass == "module_info") {
    std::cout << to_string(extract_module_info(model, reporter, options).jaxpr()) << "\n";
    return;
  }
  Passes passes(model, options, reporter);
  const ETraceGraph& g = passes.graph;
  if (pass == "perturbation") {
    print_perturbed(add_hidden_perturbation_from_minfo(g.module_info, reporter, options));
  } else {
    passes.find_groups();
    if (pass == "groups") return print_groups(g.hidden_groups);
    passes.find_relations();
    print_relations(g);
  }
}

// The compiler knows scopes and readouts, not rules: who runs in those that keep more of the recurrence, and
// what e-prop makes of a readout.
std::vector<std::string> notes_on(const ETraceGraph& graph) {
  std::vector<std::string> notes = readout_notes(graph);
  const bool left_out = std::any_of(graph.hidden_groups.begin(), graph.hidden_groups.end(),
                                    [](const HiddenGroup& g) { return !g.dropped.empty(); });
  if (!graph.options.sparse_n && !left_out) return notes;
  const auto rules = [](const std::string& scope) {
    const std::vector<std::string> found = rules_in_scope(scope);
    return found.empty() ? std::string("no learning rule yet") : fmt::format("{}", fmt::join(found, ", "));
  };
  notes.push_back(fmt::format("In scope coupled runs: {}. In sparse scopes (snapN) runs: {}.",
                              rules("coupled"), rules("snap2")));
  return notes;
}

template <class... Errors>
const std::vector<CompilationRecord>* records_of(const Error& e) {
  const std::vector<CompilationRecord>* found = nullptr;
  const auto look = [&](const auto* with) {
    if (with != nullptr) found = &with->records;
  };
  (look(dynamic_cast<const WithRecords<Errors>*>(&e)), ...);
  return found;
}

void explain(const ExplainOptions& o) {
  require_writable("explain", {"--html", o.html});
  require_different_files("explain", {{"MODEL", o.model}, {"--html", o.html}});
  const Model model = o.make_model();
  const CompileOptions options = compile_options(o);
  if (!o.dump_after.empty()) return dump_after(o.dump_after, model, options);
  const ETraceGraph graph = compile_etrace_graph(model, options);
  if (!o.html.empty()) {
    write_output(o.html, explain_html(graph));
  } else if (o.json) {
    Json all = parse_json(explain_json(graph, notes_on(graph)));
    all["programs"] = programs_of(graph);
    std::cout << json_text(all, 2) << "\n";
  } else if (o.dot) {
    std::cout << explain_dot(graph);
  } else if (o.level < 3) {
    std::cout << CompilationReport(graph).to_string(o.level);
  } else {
    std::cout << graph.explain(notes_on(graph));
  }
}

}  // namespace

void add_explain(CLI::App& app, Status&) {
  CLI::App* verb =
      app.add_subcommand("explain", "show what is learned online, through what, and what is not and why");
  auto o = std::make_shared<ExplainOptions>();
  o->add_model_options(*verb);
  auto* json = verb->add_flag("--json", o->json, "everything, for programs");
  auto* dot = verb->add_flag("--dot", o->dot, "a drawing for Graphviz");
  auto* html =
      verb->add_option("--html", o->html, "write one self-contained page to this file; -: to standard output")
          ->type_name("FILE");
  auto* level = verb->add_option("--level", o->level,
                                 "1: a short report; 2: with warnings and errors; 3: everything (default: 3)")
                    ->type_name("N")
                    ->check(whole_number(1, 3));
  auto* dump =
      verb->add_option("--dump-after", o->dump_after,
                       "print the programs that a pass leaves behind: module_info, groups, relations, "
                       "perturbation or graph")
          ->type_name("PASS")
          ->check(one_of({"module_info", "groups", "relations", "perturbation", "graph"}));
  for (auto* form : {json, dot, html, level, dump})
    for (auto* other : {json, dot, html, level, dump})
      if (form != other) form->excludes(other);
  verb->add_option("--scope", o->scope, "recurrence: diagonal, coupled, or snapN (default: diagonal)")
      ->type_name("NAME")
      ->check([](const std::string& s) {
        return s == "diagonal" || s == "coupled" || snap_order(s)
                   ? std::string()
                   : fmt::format("expected diagonal, coupled, or snap1, snap2 …, got '{}'{}", s,
                                 did_you_mean(s, std::vector<std::string>{"diagonal", "coupled", "snap1"}));
      });
  verb->add_option("--compat", o->compat, "reproduce the decisions of this system: braintrace")
      ->type_name("NAME")
      ->check(one_of({"braintrace"}));
  verb->add_flag("--composite", o->composite,
                 "relate weights that act through other weights, too: what the rule option composite=true "
                 "traces");
  verb->add_flag("--strict", o->strict, "a warning is an error");
  verb->callback([o] {
    try {
      explain(*o);
    } catch (const Error& e) {
      if (const auto* records = records_of<CompilationError, NotSupportedError, ValueError, TypeError>(e))
        for (const CompilationRecord& r : *records) std::cerr << to_string(r) << "\n";
      throw;
    }
  });
}

}  // namespace etrace::cli
