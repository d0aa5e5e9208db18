// How lean the programs of a learner are: per workload and program the counts of etrace/plan_text.h. Counts,
// not times: the same on every machine.
//
//   plan_counts [--print WORKLOAD PROGRAM]      e.g. --print W1 step
#include <fmt/format.h>

#include <cstring>
#include <iostream>

#include "etrace/etrace.h"
#include "etrace/plan_text.h"

namespace et = etrace;

namespace {

constexpr std::int64_t kIn = 100, kOut = 10, kBatch = 32, kWindow = 32;

struct Workload {
  const char* name;
  const char* model;
  std::int64_t hidden;
  const char* rule;
};

et::LearnerPlan plan_of(const Workload& w) {
  const et::ReadyModel ready = et::make_model(w.model, {.sizes = {kIn, w.hidden, kOut}, .batch = kBatch});
  et::RuleOptions options;
  if (std::strcmp(w.rule, "pp_prop") == 0) options.set("decay_or_rank", 0.99);
  et::LearnerOptions how;
  how.batch_size = kBatch;
  how.execution_window = kWindow;
  const et::Learner learner = et::compile(*ready.module, w.rule, ready.example, how, options);
  const et::Avals slices{{et::Dtype::F32, {kBatch, kIn}}, {et::Dtype::F32, {kBatch, kOut}}};
  return learner.plan(
      [](et::StepCall& model, et::ArraySpan s) { return et::LossAndAux{et::loss::mse(model(s[0]), s[1])}; },
      slices);
}

}  // namespace

int main(int argc, char** argv) {
  const Workload all[] = {{"W1", "rnn", 256, "d_rtrl"},
                          {"W2", "gru", 512, "d_rtrl"},
                          {"W3", "lif_expon", 512, "pp_prop"},
                          {"W3", "lif_expon", 512, "d_rtrl"}};
  const bool print = argc == 4 && std::strcmp(argv[1], "--print") == 0;
  if (!print) std::cout << "workload        program  equations  products  loops  passes  constant bytes\n";
  for (const Workload& w : all) {
    if (print && std::strcmp(argv[2], w.name) != 0) continue;
    for (const et::Program& p : plan_of(w).programs) {
      if (print) {
        if (p.name == argv[3]) std::cout << et::to_string(p.jaxpr.jaxpr) << "\n";
        continue;
      }
      const et::ProgramCounts c = et::counts_of(p.jaxpr);
      std::cout << fmt::format("{:<4}{:<12}{:<9}{:>9} {:>9} {:>6} {:>7} {:>15}\n", w.name, w.rule, p.name,
                               c.equations, c.products, c.loops, c.trace_passes, c.constant_bytes);
    }
  }
}
