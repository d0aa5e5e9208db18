// A model over sequences, forward only: losses and what else a step function gives, without traces and
// gradients. Sequences run in windows of a small fixed set of lengths, as learning does.
#pragma once

#include <deque>

#include "etrace/module.h"
#include "etrace/plan.h"
#include "session/session.h"

#pragma GCC visibility push(default)
namespace etrace {

class ScoreRun {
 public:
  // Every sequence starts from the states that the model's record holds. `slices`: types of one step's.
  ScoreRun(Model, const StepFunction&, std::span<const Aval> slices, const std::string& backend);

  // From now on with the parameters that the module has at the moment of a call. It must hold all of them.
  void follow(Module&);

  struct Scores {
    Tensor losses;  // [T], as the step function gives them
    Tensors aux;    // [T, …]
  };
  // ValueError unless all have the same number of steps, of the types that were given.
  Scores operator()(ArraySpan sequences);

  // What it runs for sequences of this length, one program for each length of its windows: as recorded.
  std::vector<Program> programs(std::int64_t length) const;
  std::vector<Program> compiled() const;  // what it has compiled until now

 private:
  Program program(std::int64_t steps) const;
  Launch& launch(std::int64_t steps);

  std::unique_ptr<const Model> model_;
  ModelPlan plan_;
  Avals slices_;
  StepProgram step_;
  const Backend& backend_;
  Session session_;
  struct Bound {
    std::int64_t steps;
    Launch launch;
  };
  std::deque<Bound> launches_;  // one per length of window
};

}  // namespace etrace
#pragma GCC visibility pop
