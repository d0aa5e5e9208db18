// How lean the programs of a learner are: per workload and program the number of equations (bodies included),
// of operators that own a weight, of other products, of loops, and the bytes of stored constants. Counts, not
// times: the same on every machine.
//
//   plan_counts [--print WORKLOAD PROGRAM]      e.g. --print W1 step
#include <fmt/format.h>

#include <cstring>
#include <iostream>

#include "etrace/etrace.h"

namespace et = etrace;

namespace {

constexpr std::int64_t kIn = 100, kOut = 10, kBatch = 32, kWindow = 32;

struct Counts {
  std::size_t equations = 0, operators = 0, products = 0, loops = 0, constant_bytes = 0;
};

void count(const et::ClosedJaxpr& program, Counts& c) {
  for (const et::Tensor& t : program.consts) c.constant_bytes += t.aval().bytes();
  for (const et::Eqn& eqn : program.jaxpr.eqns) {
    ++c.equations;
    if (eqn.prim->spec.etp != nullptr) ++c.operators;
    if (eqn.prim == &et::dot_general_p || eqn.prim == &et::conv_general_dilated_p) ++c.products;
    if (eqn.prim == &et::scan_p || eqn.prim == &et::while_p || eqn.prim == &et::tape_while_p) ++c.loops;
    for (const et::JaxprPtr& body : et::nested_jaxprs(eqn)) count(*body, c);
  }
}

struct Workload {
  const char* name;
  const char* model;
  std::int64_t hidden;
  const char* rule;
};

et::LearnerPlan plan_of(const Workload& w) {
  const et::ReadyModel ready = et::make_model(w.model, {.sizes = {kIn, w.hidden, kOut}, .batch = kBatch});
  et::RuleOptions options;
  if (std::strcmp(w.rule, "pp_prop") == 0) options.decay_or_rank = 0.99;
  et::LearnerOptions how;
  how.batch_size = kBatch;
  how.execution_window = kWindow;
  const et::Learner learner = et::compile(*ready.module, w.rule, ready.example, how, options);
  const et::Avals slices{{et::Dtype::F32, {kBatch, kIn}}, {et::Dtype::F32, {kBatch, kOut}}};
  return learner.plan(
      [](et::StepCall& model, et::ArraySpan s) { return et::LossAndAux{et::loss::mse(model(s[0]), s[1])}; },
      slices, kWindow);
}

struct Named {
  const char* name;
  const et::ClosedJaxpr* program;
};

}  // namespace

int main(int argc, char** argv) {
  const Workload all[] = {{"W1", "rnn", 256, "d_rtrl"},
                          {"W2", "gru", 512, "d_rtrl"},
                          {"W3", "lif_expon", 512, "pp_prop"},
                          {"W3d", "lif_expon", 512, "d_rtrl"}};
  const bool print = argc == 4 && std::strcmp(argv[1], "--print") == 0;
  if (!print) std::cout << "workload        program  equations  operators  products  loops  constant bytes\n";
  for (const Workload& w : all) {
    if (print && std::strcmp(argv[2], w.name) != 0) continue;
    const et::LearnerPlan plan = plan_of(w);
    for (const Named& n : {Named{"evolve", &plan.evolve}, Named{"step", &plan.step},
                           Named{"window", &plan.window}, Named{"solve", &plan.solve}}) {
      if (print) {
        if (std::strcmp(argv[3], n.name) == 0) std::cout << et::to_string(n.program->jaxpr);
        continue;
      }
      Counts c;
      count(*n.program, c);
      std::cout << fmt::format("{:<4}{:<12}{:<9}{:>9} {:>10} {:>9} {:>6} {:>15}\n", w.name, w.rule, n.name,
                               c.equations, c.operators, c.products, c.loops, c.constant_bytes);
    }
  }
}
