// etrace profile MODEL: where a learner's native code spends its time, step by step of the emitted program.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "cli/help.h"
#include "cli/option_values.h"
#include "cli/plan.h"
#include "cli/verbs.h"
#include "etrace/loss.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "io/json.h"
#include "native/profile.h"
#include "runtime/thread_pool.h"
#include "session/program_run.h"

namespace etrace::cli {

namespace {

struct ProfileArguments : PlanArguments {
  ProfileArguments() : PlanArguments("profile") {}
  std::string program = "window";
  double seconds = 1.0, spikes = 0.0;
  std::int64_t top = 20;
  bool json = false;
};

Tensor data_for(const Port& port, std::size_t number, double spikes) {
  constexpr const char* kTarget = "slice1";
  const Aval& a = port.aval;
  const Array key = random::key(number + 1);
  if (port.role == PortRole::Weight) return ones(a.shape, a.dtype).tensor();
  if (port.role == PortRole::Hyperparameter) return full(a.shape, 1e-3, a.dtype).tensor();
  if ((port.role != PortRole::Slice && port.role != PortRole::Arg && port.role != PortRole::Signal) ||
      !is_floating(a.dtype))
    return zeros(a.shape, a.dtype).tensor();
  if (spikes > 0.0 && port.name != kTarget)
    return convert(random::bernoulli(key, spikes, a.shape), a.dtype).tensor();
  return random::normal(key, a.shape, a.dtype).tensor();
}

// Parameters and states as the model has them, random data, zero traces.
void set_values(ProgramRun& run, const Model& model, double spikes) {
  const std::vector<Port>& ports = run.program().arguments;
  for (std::size_t i = 0; i < ports.size(); ++i)
    run.set(ports[i].role, ports[i].name, data_for(ports[i], i, spikes));
  const ModelPlan plan(model);
  for (const auto* list : {&plan.params(), &plan.states()})
    for (const ModelPlan::Start& s : *list)
      if (run.takes(s.port.role, s.port.name)) run.set(s.port.role, s.port.name, s.value);
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

void print_steps(const std::vector<native::StepTime>& steps, double total, std::int64_t runs,
                 std::int64_t top) {
  std::cout << fmt::format("{:>6}{:>12}{:>10}  {}\n", "share", "us/run", "calls/run", "step");
  for (std::size_t i = 0; i < steps.size() && i < static_cast<std::size_t>(top); ++i) {
    const native::StepTime& s = steps[i];
    std::cout << fmt::format(
        "{:>5.1f}%{:>12.2f}{:>10.4g}  {}{}{}\n", total > 0 ? 100 * s.seconds / total : 0.0,
        s.seconds / static_cast<double>(runs) * 1e6, static_cast<double>(s.calls) / static_cast<double>(runs),
        s.kind, s.paths.empty() ? "" : "  in ", fmt::join(s.paths, ", "));
    for (const std::string& e : s.equations) std::cout << fmt::format("{:>30}{}\n", "", shortened(e, 70));
  }
  if (steps.size() > static_cast<std::size_t>(top))
    std::cout << fmt::format("and {} more steps; --top shows more\n",
                             steps.size() - static_cast<std::size_t>(top));
}

void print_json(const std::vector<native::StepTime>& steps, const Program& p, double per_run,
                std::int64_t runs) {
  OrderedJson out{{"format", "etrace.profile"},   {"program", p.name},
                  {"threads", default_threads()}, {"runs", runs},
                  {"us_per_run", per_run * 1e6},  {"steps", OrderedJson::array()}};
  for (const native::StepTime& s : steps)
    out["steps"].push_back({{"kind", s.kind},
                            {"us_per_run", s.seconds / static_cast<double>(runs) * 1e6},
                            {"calls", s.calls},
                            {"paths", s.paths},
                            {"equations", s.equations}});
  std::cout << json_text(out, 1) << "\n";
}

void run_profile(const ProfileArguments& o) {
  const Planned made = planned(o);
  const Program& p = made.compiled.at(o.program);
  native::ProfiledProgram profiled(p);
  ProgramRun run(p, profiled.code());
  set_values(run, made.model, o.spikes);
  run();
  profiled.reset();
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::int64_t runs = 0;
  while (runs == 0 || passed() < o.seconds) {
    run();
    ++runs;
  }
  const double per_run = passed() / static_cast<double>(runs);
  const std::vector<native::StepTime> steps = profiled.times();
  if (o.json) return print_json(steps, p, per_run, runs);
  double total = 0.0;
  for (const native::StepTime& s : steps) total += s.seconds;
  std::cout << fmt::format(
      "program {} of {} with {}: {:.1f} us per run, {} steps of emitted code, {} threads\n", p.name, o.model,
      o.rule.rule, per_run * 1e6, steps.size(), default_threads());
  print_steps(steps, total, runs, o.top);
}

}  // namespace

void add_profile(CLI::App& app, Status&) {
  CLI::App* verb = app.add_subcommand("profile", "show where a learner's native code spends its time");
  auto o = std::make_shared<ProfileArguments>();
  o->add_to(*verb);
  verb->add_option("--program", o->program, "one of those that `etrace plan` prints with the same options")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--seconds", o->seconds, "how long it runs")
      ->type_name("X")
      ->check(number_between(0, 86400))
      ->capture_default_str();
  verb->add_option("--spikes", o->spikes, "inputs are spikes with this probability (default: normal numbers)")
      ->type_name("P")
      ->check(number_between(0, 1));
  verb->add_option("--top", o->top, "how many steps are shown, the slowest first")
      ->type_name("N")
      ->check(count_from(1))
      ->capture_default_str();
  verb->add_flag("--json", o->json, "all steps, for programs");
  verb->footer([] {
    return rules_short_help() + "\n" + help_table("Losses", loss::all()) + "\n" +
           wrapped(
               "A step is", 10,
               "a function of fused loops, a matrix product or a kernel of the library; below it stand the "
               "equations it computes, beside it the modules they come from. `etrace plan MODEL --program "
               "NAME --emit c` prints the code.");
  });
  verb->callback([o] { run_profile(*o); });
}

}  // namespace etrace::cli
