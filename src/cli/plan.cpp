// etrace plan MODEL: the programs that a learner runs, with their ports, before and after each pass.
#include <fmt/format.h>

#include <charconv>
#include <iostream>

#include "base/nearest.h"
#include "cli/help.h"
#include "cli/option_values.h"
#include "cli/plan.h"
#include "cli/rule_option.h"
#include "cli/verbs.h"
#include "emit/c_printer.h"
#include "emit/cuda_unit.h"
#include "emit/emit.h"
#include "etrace/backend.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/loss.h"
#include "etrace/plan.h"
#include "etrace/plan_text.h"
#include "etrace/simplify.h"
#include "etrace/tasks.h"
#include "io/json.h"
#include "io/step_outputs.h"

namespace etrace::cli {

Avals slices_of(const Model& m) {
  Avals out = argument_types(m);
  const Avals results = result_types(m);
  if (results.empty())
    throw ValueError("plan", "the model has no result, so there is nothing to take a loss of");
  out.push_back(results[0]);
  return out;
}

namespace {

Json port_json(const Port& p) {
  return {{"name", p.name}, {"role", name(p.role)}, {"type", to_string(p.aval)}, {"bytes", p.aval.bytes()}};
}

StepFunction loss_of_first_result(const std::string& name) {
  const auto loss = loss::find(name).function;
  return [loss](StepCall& step, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{loss(step(args)[0], s.back())};
  };
}

}  // namespace

Json program_json(const Program& p, bool equations) {
  Json out{{"name", p.name}, {"arguments", Json::array()}, {"results", Json::array()}};
  for (const Port& port : p.arguments) out["arguments"].push_back(port_json(port));
  for (const Port& port : p.results) out["results"].push_back(port_json(port));
  for (const Alias& a : p.aliases) out["results"][a.result]["in_place_of"] = a.argument;
  for (const Alias& a : p.exchanges) out["results"][a.result]["changes_places_with"] = a.argument;
  const ProgramCounts c = counts_of(p.jaxpr);
  out["fingerprint"] = fmt::format("{:016x}", hash(p.jaxpr));
  out["equations"] = c.equations;
  out["products"] = c.products;
  out["loops"] = c.loops;
  out["trace_passes"] = c.trace_passes;
  out["constant_bytes"] = c.constant_bytes;
  out["operations"] = c.operations;
  out["traces"] = Json::array();
  for (const TracePass& t : trace_passes(p.jaxpr))
    out["traces"].push_back({{"trace", t.trace},
                             {"steps", t.steps},
                             {"form", name(t.form)},
                             {"threads", t.threads},
                             {"reason", t.reason}});
  if (equations) out["text"] = to_string(p.jaxpr.jaxpr);
  return out;
}

Json programs_of(const ETraceGraph& graph) {
  Json out = Json::array();
  if (graph.all_relations().empty()) return out;
  try {
    const PlanBuilder builder(graph, D_RTRL(), VjpMethod::SingleStep);
    for (const Program& p :
         builder.plan(loss_of_first_result("mse"), slices_of(graph.module_info.model), 32).programs)
      out.push_back(program_json(lean(p), false));
  } catch (const NotSupportedError& e) {
    return {{"refused", e.what()}};
  } catch (const ValueError& e) {
    return {{"refused", e.what()}};
  }
  return out;
}

namespace {

struct PlanCommand : PlanArguments {
  PlanCommand() : PlanArguments("plan") {}
  std::string program, emit;
  bool equations = false, passes = false, json = false, why = false;
};

// The program as it was recorded, and after each pass that changes it.
void print_passes(Program p, bool equations) {
  std::cout << "as recorded\n" << program_text(p, equations);
  ProgramCounts before = counts_of(p.jaxpr);
  LeanJaxpr lean(p.jaxpr);
  for (const SimplifyPass& pass : simplify_passes()) {
    pass.run(lean);
    p.jaxpr = lean.to_run();
    const ProgramCounts now = counts_of(p.jaxpr);
    std::cout << fmt::format("after {}: {} -> {} equations, {} -> {} products, {} -> {} loops\n", pass.name,
                             before.equations, now.equations, before.products, now.products, before.loops,
                             now.loops);
    if (equations) std::cout << to_string(p.jaxpr.jaxpr) << "\n";
    before = now;
  }
}

}  // namespace

namespace {

Planned planned_model(const PlanArguments& o) {
  const std::shared_ptr<const LearningRule> rule = o.rule.make();
  Planned out{o.make_model(), {}, {}, {}};
  CompileOptions options;
  options.batch_size = o.batch;
  rule->configure(options);
  const ETraceGraph graph = compile_etrace_graph(out.model, options);
  const PlanBuilder builder(graph, *rule, o.method.value_or(VjpMethod::SingleStep));
  const auto optimizer = optim::make(o.optimizer, {.common = {.clip_norm = o.task.clip_norm_given()}});
  const ExecutionChoice execution = builder.execution(o.window);
  out.text = "Sequences run " + execution.to_string() + "\n\n";
  out.recorded =
      builder.plan(loss_of_first_result(o.loss), slices_of(out.model), execution.window, optimizer.get());
  require_known(o.trace_passes, row_names(builder.rule().slots()));
  for (const Program& p : out.recorded.programs)
    out.compiled.programs.push_back(with_trace_passes(lean(p), o.trace_passes));
  return out;
}

}  // namespace

Planned planned(const PlanArguments& o) { return o.is_task() ? planned_training(o) : planned_model(o); }

namespace {

void run_plan(const PlanCommand& o) {
  Planned made = planned(o);
  if (!o.program.empty()) made.keep(o.program);
  Json all = Json::array();
  if (!o.json && o.program.empty()) std::cout << made.text;
  for (std::size_t i = 0; i < made.compiled.programs.size(); ++i) {
    const Program& p = made.compiled.programs[i];
    if (o.passes) {
      print_passes(made.recorded.programs[i], o.equations);
      std::cout << "\n";
      continue;
    }
    const auto& target = emit::find_target(o.emit.empty() || o.emit == "c" ? "native" : o.emit);
    if (o.why) {
      std::vector<emit::Refusal> why;
      const emit::EmitProgram built = emit::build(p, target, &why);
      std::cout << fmt::format("{}: {} refusals\n", p.name, why.size()) << emit::text_of(why, built) << "\n";
      continue;
    }
    if (!o.emit.empty()) {
      const emit::EmitProgram built = emit::build(p, target);
      std::cout << (target.name == "cuda" ? emit::to_string(emit::cuda_unit(built)) : emit::print_c(built));
      continue;
    }
    const std::size_t arena = find_backend("interpreter").compile(p)->arena_bytes();
    if (o.json) {
      all.push_back(program_json(p, o.equations));
      all.back()["arena_bytes"] = arena;
    } else {
      std::cout << program_text(p, o.equations)
                << fmt::format(" on the interpreter: {} bytes for values in between\n\n", arena);
    }
  }
  if (o.json) std::cout << json_text(all, 1) << "\n";
}

}  // namespace

void PlanArguments::add_to(CLI::App& verb) {
  add_model_options(verb);
  verb.get_option("MODEL")->description(
      verb.get_option("MODEL")->get_description() +
      fmt::format("; or a TASK: what `etrace train` runs for one of {}", fmt::join(task_names(), ", ")));
  rule.add_to(verb);
  add_method_option(verb, method, "single-step; for a TASK as `etrace train` chooses it");
  verb.add_option("--window", window,
                  "steps that run at once (default: chosen by size); for a TASK as `etrace train` takes it")
      ->type_name("N")
      ->check(whole_number(std::int64_t{1}, kMostOfARun));
  add_trace_pass_option(verb, trace_passes);
  verb.add_option("--loss", loss, "of the first result against its target")
      ->type_name("NAME")
      ->capture_default_str();
  verb.add_option("--optimizer", optimizer, "for the programs that update the parameters")
      ->type_name("NAME")
      ->capture_default_str();
  task.add_to(verb);
}

void add_plan(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand("plan", "print the programs that a learner runs, with their ports");
  auto o = std::make_shared<PlanCommand>();
  o->add_to(*verb);
  auto* program = verb->add_option("--program", o->program,
                                   "one of them: init, evolve, evolve_window, step, window, train_step, "
                                   "train_window, update, solve; for a TASK: those that it has")
                      ->type_name("NAME");
  verb->add_flag("--equations", o->equations, "with every equation");
  auto* passes = verb->add_flag("--passes", o->passes, "as recorded, and after each pass");
  auto* json = verb->add_flag("--json", o->json, "for programs")->excludes(passes);
  verb->add_option(
          "--emit", o->emit,
          "print code for a program instead: c, as the native backend compiles it, c99, which stands "
          "alone, or cuda, with the order in which its kernels run")
      ->type_name("TARGET")
      ->check(one_of({"c", "c99", "cuda"}))
      ->needs(program)
      ->excludes(passes)
      ->excludes(json);
  verb->add_flag("--why", o->why,
                 "what the emitter did not join, write in place or make a vector of, and why not")
      ->excludes(passes)
      ->excludes(json);
  verb->footer([] { return rules_short_help() + "\n" + help_table("Losses", loss::all()); });
  verb->callback([o] { run_plan(*o); });
}

}  // namespace etrace::cli
