// What a learner holds. Private to learn/.
#pragma once

#include <deque>

#include "etrace/interp.h"
#include "etrace/learner.h"

namespace etrace {

// A value of the model: a leaf of one of its states, or the learner's own.
struct Place {
  std::string name;  // "rnn/h", "rnn/W/weight.bias"
  State* state = nullptr;
  std::size_t leaf = 0;
  Tensor own, init;  // used without a state
  bool survives_reset = false;

  Tensor get() const;
  void set(const Tensor&);
};

struct Learner::Impl {
  Impl(ETraceGraph g, const LearningRule& r, LearnerOptions o);

  Arrays params_now() const;
  Carry carry_now() const;
  Tensors inputs(ArraySpan more) const;  // parameters, states, memory, then these
  void write(std::span<const Tensor> states, std::span<const Tensor> new_memory);

  // The program of this key, types and step function; made if it is not there. The oldest make room.
  const Executable& program(const std::string& key, const ClosedJaxpr* step, const Avals& types,
                            const Function& f);

  ETraceGraph graph;
  std::shared_ptr<const LearningRule> rule;
  LearnerOptions options;
  PlanBuilder builder;
  std::vector<Place> params, states;
  Tensors memory;
  Module* module = nullptr;

  struct Cached {
    std::string key;
    std::optional<ClosedJaxpr> step;
    Avals types;
    Executable program;
  };
  std::deque<Cached> cache;
};

}  // namespace etrace
