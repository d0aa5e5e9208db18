// Which programs a call over a sequence runs, and in which order: what etrace_grad and etrace_train launch,
// and what train_plan() shows. Nothing here looks at data.
#pragma once

#include "learn/run/learner_impl.h"

namespace etrace {

class WindowPrograms {
 public:
  // Types of one step's slices, of one weight (undefined mask: none) and of the modulator.
  struct Types {
    Avals slices;
    bool weighted = false;
    std::optional<std::int64_t> samples = {};  // weights are per sample
    std::optional<Aval> modulator = {};        // of one step, if it is given for each
    bool modulator_per_step = false, modulator_by_group = false;
  };
  WindowPrograms(Learner::Impl&, const StepFunction&, Types, std::int64_t length, const SequenceOptions&,
                 const optim::Optimizer*);

  std::int64_t length() const { return length_; }
  const WindowForm& form() const { return form_; }
  const Avals& slices() const { return types_.slices; }
  // Steps that the step function sees at once.
  std::int64_t call_steps() const { return chunk_.value_or(1); }
  const Learner::Impl::KnownObjective& objective(std::int64_t steps) const;

  // Steps of the windows of a stretch, none longer than `longest`. Those of a multi-step learner are what its
  // step function takes, and one for the rest.
  std::vector<std::int64_t> lengths(std::int64_t steps, std::int64_t longest) const;
  // Steps with one update behind them; in one window the update is part of its program.
  struct Stretch {
    std::int64_t begin = 0, steps = 0;
    std::vector<std::int64_t> windows;
  };
  std::vector<Stretch> stretches(const char* what, const TrainOptions&) const;

  // A program as recorded, and what it is known by.
  struct Known {
    std::string key;
    std::function<Program()> make;
  };
  Known window(std::int64_t steps, bool updates) const;
  Known update() const;

 private:
  Learner::Impl& impl_;
  StepFunction f_;
  Types types_;
  std::int64_t length_;
  const optim::Optimizer* optimizer_;
  bool multi_;
  std::optional<std::int64_t> chunk_;
  WindowForm form_;
};

}  // namespace etrace
