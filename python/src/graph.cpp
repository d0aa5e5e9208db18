// What the compiler found, the programs of a learner, verification and comparison of rules.
#include "convert.h"
#include "etrace/compare_rules.h"
#include "etrace/explain.h"
#include "etrace/plan_text.h"
#include "etrace/summary.h"
#include "etrace/verify.h"
#include "gil.h"
#include "learner.h"
#include "options.h"
#include "paths.h"
#include "recording.h"
#include "rules.h"

namespace etrace::python {

namespace {

// A graph, and who holds it: a learner, or nobody else.
struct Graph {
  std::shared_ptr<const ETraceGraph> graph;
};

nb::list paths_of(const std::vector<StatePath>& paths) {
  nb::list out;
  for (const StatePath& p : paths) out.append(to_string(p));
  return out;
}

nb::dict record_dict(const CompilationRecord& r) {
  nb::dict d;
  d["kind"] = nb::cast(std::string(name(r.kind)));
  d["level"] = nb::cast(std::string(name(r.level)));
  d["message"] = r.message;
  d["primitive"] = r.primitive;
  d["weight_path"] = r.weight_path ? nb::cast(to_string(*r.weight_path)) : nb::none();
  d["hidden_paths"] = paths_of(r.hidden_paths);
  nb::dict context;
  for (const auto& [key, value] : r.context) context[key.c_str()] = to_object(value);
  d["context"] = context;
  d["note"] = r.note;
  d["origin"] = nb::make_tuple(nb::cast(r.origin.module), r.origin.file, r.origin.line);
  d["text"] = to_string(r);
  return d;
}
nb::list record_dicts(const std::vector<CompilationRecord>& records) {
  nb::list out;
  for (const CompilationRecord& r : records) out.append(record_dict(r));
  return out;
}

nb::list groups_of(const Graph& g) {
  nb::list out;
  for (const HiddenGroup& group : g.graph->hidden_groups) {
    nb::dict d;
    d["index"] = group.index;
    d["hidden_paths"] = paths_of(group.hidden_paths);
    d["varshape"] = to_object(group.varshape());
    d["num_state"] = group.num_state();
    d["batch_size"] = nb::cast(group.batch_size);
    d["is_diagonal_recurrence"] = group.is_diagonal_recurrence;
    d["mixing_reason"] = group.mixing_reason;
    out.append(d);
  }
  return out;
}

nb::list relations_of(const Graph& g) {
  nb::list out;
  for (const HiddenParamOpRelation* r : g.graph->all_relations()) {
    nb::dict d;
    d["primitive"] = nb::cast(std::string(r->primitive->name()));
    d["path"] = to_string(r->path());
    nb::dict trainables;
    for (const TrainableSource& t : r->trainables)
      trainables[t.key.c_str()] = nb::cast(g.graph->module_info.leaf_names(t));
    d["trainables"] = trainables;
    d["hidden_groups"] = nb::cast(r->hidden_groups);
    d["connected_hidden_paths"] = paths_of(r->connected_hidden_paths);
    nb::list classes;
    for (const PathClassification c : r->path_classification) classes.append(nb::cast(std::string(name(c))));
    d["path_classification"] = classes;
    out.append(d);
  }
  return out;
}

ETraceGraph compiled_graph(Module& module, nb::handle update, Given<Arrays> example,
                           const nb::dict& options) {
  const Arrays args = example.get();
  CompileOptions o;
  const Fields fields{
      {"scope",
       [&](nb::handle v) {
         const std::string word = text("scope", v);
         if (word != "diagonal" && word != "coupled")
           throw ValueError("options", "scope is '" + word + "'; it must be 'diagonal' or 'coupled'");
         o.include_recurrent_mixing = word == "coupled";
       }},
      {"sparse_n",
       [&](nb::handle v) {
         o.sparse_n = integer("sparse_n", v);
         o.include_recurrent_mixing = true;
       }},
      {"composite", [&](nb::handle v) { o.composite = flag("composite", v); }},
      {"compat", [&](nb::handle v) { o.compat = compat(v); }},
      {"control_flow", [&](nb::handle v) { o.control_flow = control_flow(v); }},
      {"strict", [&](nb::handle v) { o.strict = flag("strict", v); }},
      {"batch_size", [&](nb::handle v) { o.batch_size = integer("batch_size", v); }},
  };
  read_fields("compile_etrace_graph", options, fields);
  Call call;
  call.root = &module;
  call.update = update.is_none() ? nb::handle() : update;
  const Released free;
  return compile_etrace_graph(module, ArraySpan(args), o);
}

void bind_graph(nb::module_& m) {
  nb::class_<Graph>(m, "_Graph")
      .def(
          "explain",
          [](const Graph& g, const std::vector<std::string>& notes) { return g.graph->explain(notes); },
          "notes"_a = nb::list())
      .def("to_json", [](const Graph& g) { return explain_json(*g.graph); })
      .def("to_dot", [](const Graph& g) { return explain_dot(*g.graph); })
      .def("to_html", [](const Graph& g) { return explain_html(*g.graph); })
      .def("_groups", groups_of)
      .def("_relations", relations_of)
      .def("_records", [](const Graph& g) { return record_dicts(g.graph->diagnostics); })
      .def(
          "_report", [](const Graph& g, int level) { return CompilationReport(*g.graph).to_string(level); },
          "level"_a)
      .def("_weights", [](const Graph& g) {
        const CompilationReport r(*g.graph);
        nb::list online, excluded;
        for (const auto& w : r.etrace_weights)
          online.append(nb::make_tuple(w.name, nb::cast(w.groups), w.composite));
        for (const auto& w : r.excluded_weights)
          excluded.append(
              nb::make_tuple(w.name, w.reason ? nb::cast(std::string(name(*w.reason))) : nb::none()));
        return nb::make_tuple(online, excluded, paths_of(r.dynamic_states), r.warnings, r.errors);
      });
  m.def(
      "_compile_graph",
      [](Module& module, nb::handle update, Given<Arrays> example, const nb::dict& options) {
        return Graph{std::make_shared<const ETraceGraph>(compiled_graph(module, update, example, options))};
      },
      "module"_a, "update"_a.none(), "example"_a, "options"_a);
}

// --- models and programs
// -------------------------------------------------------------------------------------------

Model traced(Module& module, nb::handle update, nb::handle example, const std::string& name) {
  const Arrays args = from_object<Arrays>(example);
  Call call;
  call.root = &module;
  call.update = update.is_none() ? nb::handle() : update;
  return trace_step(module, ArraySpan(args), name).model;
}

void bind_models(nb::module_& m) {
  nb::class_<Model>(m, "_Model",
                    "One traced step of a model: a program whose inputs are known by role and path.")
      .def_ro("name", &Model::name)
      .def("to_json", [](const Model& model) { return write_model(model); })
      .def("jaxpr", [](const Model& model) { return to_string(model.program.jaxpr); })
      .def("_inputs", [](const Model& model) {
        nb::list out;
        for (const InputRecord& in : model.inputs)
          out.append(nb::make_tuple(std::string(name(in.role)),
                                    in.role == Role::Arg ? std::to_string(in.index) : to_string(in.path)));
        return out;
      });
  m.def("_trace_step", traced, "module"_a, "update"_a.none(), "example"_a, "name"_a = "model");
  m.def(
      "_summary",
      [](Module& module, nb::handle update, nb::handle example) {
        Call call;
        call.root = &module;
        call.update = update.is_none() ? nb::handle() : update;
        const Summary s = summary(module, example.is_none() ? Array() : to_array(example));
        return nb::make_tuple(s.to_string(), s.to_json());
      },
      "module"_a, "update"_a.none(), "example"_a.none());

  nb::class_<Program>(m, "Program", "A program as a learner runs it.")
      .def_ro("name", &Program::name)
      .def(
          "text", [](const Program& p, bool equations) { return program_text(p, equations); },
          "equations"_a = true)
      .def("counts",
           [](const Program& p) {
             const ProgramCounts c = counts_of(p.jaxpr);
             nb::dict d;
             d["equations"] = c.equations;
             d["products"] = c.products;
             d["loops"] = c.loops;
             d["trace_passes"] = c.trace_passes;
             d["constant_bytes"] = c.constant_bytes;
             d["operations"] = c.operations;
             return d;
           })
      .def("__repr__", [](const Program& p) { return program_text(p, false); });
}

// --- verification and comparison
// -----------------------------------------------------------------------------------

Fields verify_fields(VerifyOptions& o) {
  return {{"windows", [&](nb::handle v) { o.windows = integers("windows", v); }},
          {"lags", [&](nb::handle v) { o.lags = integer("lags", v); }},
          {"finite_differences", [&](nb::handle v) { o.finite_differences = flag("finite_differences", v); }},
          {"full_rtrl", [&](nb::handle v) { o.full_rtrl = flag("full_rtrl", v); }},
          {"max_influence", [&](nb::handle v) { o.max_influence = integer("max_influence", v); }},
          {"control_flow", [&](nb::handle v) { o.control_flow = control_flow(v); }},
          {"method", [&](nb::handle v) { o.method = vjp_method(v); }},
          {"compat", [&](nb::handle v) { o.compat = compat(v); }},
          {"backend", [&](nb::handle v) { o.backend = text("backend", v); }}};
}

VerifyReport verified(const Model& model, const Model* as_written, const Rule& rule, Given<Arrays> sequences,
                      const PythonFunction& f, nb::handle function, const nb::dict& options,
                      const nb::list& python_rules) {
  const Arrays data = sequences.get();
  VerifyOptions o;
  o.as_written = as_written;
  read_fields("verify", options, verify_fields(o));
  Call call;
  call.function = function;
  call.learner = &model;
  for (nb::handle r : python_rules) call.rules.push_back(r);
  const Released free;
  return verify(model, *rule.rule, data, f.step, o);
}

RuleComparison compared(const nb::list& draws, const nb::list& rules, const PythonFunction& f,
                        nb::handle function, nb::handle on_row, const nb::dict& options,
                        const nb::list& python_rules) {
  std::vector<ModelDraw> all;
  for (nb::handle d : draws) all.push_back({nb::cast<const Model&>(d[0]), from_object<Arrays>(d[1])});
  std::vector<std::shared_ptr<const LearningRule>> some;
  for (nb::handle r : rules) some.push_back(nb::cast<const Rule&>(r).rule);
  if (some.empty()) some = rules_to_compare();
  CompareOptions o;
  const Fields fields{{"single_step", [&](nb::handle v) { o.single_step = flag("single_step", v); }},
                      {"windows", [&](nb::handle v) { o.windows = integers("windows", v); }},
                      {"lags", [&](nb::handle v) { o.lags = integer("lags", v); }},
                      {"repeats", [&](nb::handle v) { o.repeats = static_cast<int>(integer("repeats", v)); }},
                      {"seconds", [&](nb::handle v) { o.seconds = number("seconds", v); }},
                      {"control_flow", [&](nb::handle v) { o.control_flow = control_flow(v); }},
                      {"compat", [&](nb::handle v) { o.compat = compat(v); }},
                      {"backend", [&](nb::handle v) { o.backend = text("backend", v); }}};
  read_fields("compare_rules", options, fields);
  if (!on_row.is_none())
    o.on_row = [on_row](const RuleComparison& c) {
      const Taken gil;
      on_row(nb::cast(c.rows.size()), c.rows.empty() ? nb::none() : nb::cast(c.rows.back().rule));
    };
  Call call;
  call.function = function;
  call.learner = &all.front().model;
  for (nb::handle r : python_rules) call.rules.push_back(r);
  const Released free;
  return compare_rules(all, some, f.step, o);
}

// The step that a step function calls while it is recorded for a model without a learner.
nb::list call_model(nb::handle args) {
  Call* const call = Call::current();
  if (call == nullptr || call->model == nullptr)
    throw NotSupportedError(
        "step", "the model is called this way only inside a step function that is being recorded");
  std::vector<StepInput> inputs;
  for (nb::handle h : nb::iter(args)) inputs.push_back(step_input(h, Dtype::F32));
  return to_list((*call->model)(inputs));
}

// What both kinds of reports show: their text, their page in a notebook, and a tree of plain values.
template <class R>
nb::class_<R> report_class(nb::module_& m, const char* name, const char* doc) {
  return nb::class_<R>(m, name, doc)
      .def("to_string", &R::to_string)
      .def("to_json", &R::to_json)
      .def(
          "to_dict",
          [](const R& r) {
            return nb::cast<nb::dict>(nb::module_::import_("json").attr("loads")(r.to_json()));
          },
          "The same as to_json, read.")
      .def("to_html", &R::to_html, "A page that stands alone.")
      .def("__str__", &R::to_string)
      .def("__repr__", &R::to_string)
      .def("_repr_html_", [](const R& r) {
        return nb::cast<std::string>(nb::module_::import_("etrace._show").attr("frame")(r.to_html(), 640));
      });
}

void bind_reports(nb::module_& m) {
  report_class<VerifyReport>(m, "VerifyReport",
                             "Gradients of a rule against BPTT, for every parameter and lag.")
      .def("met", &VerifyReport::met, "Whether everything that must be exact is.")
      .def("failures", &VerifyReport::failures, "What is not, in words.")
      .def_ro("loss", &VerifyReport::loss);
  report_class<RuleComparison>(m, "RuleComparison",
                               "Rules side by side: memory, time, and how close they come to BPTT.")
      .def("to_markdown", &RuleComparison::to_markdown);
  m.def("_verify", verified, "model"_a, "as_written"_a.none(), "rule"_a, "sequences"_a, "step"_a,
        "function"_a, "options"_a, "python_rules"_a);
  m.def("_compare_rules", compared, "draws"_a, "rules"_a, "step"_a, "function"_a, "on_row"_a.none(),
        "options"_a, "python_rules"_a);
  m.def("_call_model", call_model, "args"_a);
}

}  // namespace

void bind_graphs(nb::module_& m) {
  bind_graph(m);
  bind_models(m);
  bind_reports(m);
}

void bind_learner_views(nb::class_<LearnerObject>& c) {
  c.def_prop_ro("_graph",
                [](const LearnerObject& l) {
                  require_no_other_thread(*l.core);
                  return Graph{std::shared_ptr<const ETraceGraph>(l.core, &l.core->learner.graph())};
                })
      .def(
          "_plan",
          [](const LearnerObject& l, const nb::list& slices, const PythonFunction& f, nb::handle function,
             std::shared_ptr<optim::Optimizer> optimizer) {
            Avals types;
            for (nb::handle h : slices) types.push_back(adapted(h, l.working).aval());
            Call call;
            call.function = function;
            LongCall::prepare(call, l);
            require_no_other_thread(*l.core);
            return l.core->learner.plan(f.step, types, optimizer.get()).programs;
          },
          "slices"_a, "step"_a, "function"_a, "optimizer"_a.none())
      .def(
          "compiled",
          [](const LearnerObject& l) {
            require_no_other_thread(*l.core);
            return l.core->learner.compiled();
          },
          "The programs that were compiled for sequences until now, the newest first.");
}

}  // namespace etrace::python
