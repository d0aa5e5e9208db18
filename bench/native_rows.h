// Programs of the workloads W1 to W3, W3 saturated in one row more, and buffers to run them on: for the
// programs of bench/ that measure native code.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/workloads.h"

namespace etrace::bench {

struct Row {
  const char *work, *rule;
  std::int64_t batch, steps;
  std::string name() const { return fmt::format("{} {} b{} k{}", work, rule, batch, steps); }
};

// Has the name each of the filters in it?
inline bool wanted(const std::string& name, const std::vector<std::string>& filters) {
  return std::all_of(filters.begin(), filters.end(),
                     [&](const std::string& f) { return (name + " ").find(f) != std::string::npos; });
}

inline std::vector<Row> rows(const std::vector<std::string>& filters) {
  std::vector<Row> out;
  for (const char* rule : {"D_RTRL", "pp_prop"})
    for (const char* work : {"W1", "W2", "W3"})
      for (const std::int64_t batch : {1, 32, 128})
        for (const std::int64_t steps : {1, 32}) {
          const Row row{work, rule, batch, steps};
          const bool large = batch == 128 && std::strcmp(rule, "D_RTRL") == 0;
          if (!large && wanted(row.name(), filters)) out.push_back(row);
        }
  const Row saturated{kW3Saturated, "pp_prop", 128, 32};
  if (wanted(saturated.name(), filters)) out.push_back(saturated);
  return out;
}

inline Learner learner_of(const Row& row, const Workload& w) {
  RuleOptions options;
  if (std::strcmp(row.rule, "pp_prop") == 0) options.set("decay_or_rank", 0.99);
  LearnerOptions how;
  how.batch_size = row.batch;
  how.execution_window = row.steps;
  return compile(*w.model, row.rule, Arrays{w.example}, how, options);
}

// One window of steps, or one step.
inline Program program_of(const Row& row, const Workload& w, const Learner& learner) {
  const StepFunction f = [](StepCall& m, ArraySpan s) -> LossAndAux { return {loss::mse(m(s[0]), s[1])}; };
  const Avals slices{w.example.aval(), {Dtype::F32, w.targets(2, 1).shape().without(0)}};
  return learner.plan(f, slices).at(row.steps == 1 ? "step" : "window");
}

// Buffers that live as long as the measurement.
struct Bound {
  std::vector<Tensor> memory;
  std::vector<const void*> arguments;
  std::vector<void*> results;
};
inline Bound bind(const Program& p, const Workload& w, std::int64_t steps) {
  Bound b;
  const auto room = [&](const Aval& aval) {
    b.memory.push_back(Tensor::full(aval, 0.0));
    return reinterpret_cast<float*>(b.memory.back().writable());
  };
  const Array data[] = {w.inputs(1, steps), w.targets(2, steps)};
  std::size_t slice = 0;  // inputs, then targets, as the loss takes them
  const ParamValues params = param_values(*w.model);
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    const Port& port = p.arguments[i];
    float* at = room(port.aval);
    b.arguments.push_back(at);
    if (port.role == PortRole::Slice) std::memcpy(at, data[slice++].tensor().bytes(), port.aval.bytes());
    if (port.role == PortRole::Weight) std::fill_n(at, port.aval.shape.size(), 1.0F);
    if (port.role == PortRole::Param)
      std::memcpy(at, params.at(port.name).tensor().bytes(), port.aval.bytes());
  }
  for (const Port& r : p.results) b.results.push_back(room(r.aval));
  for (const Alias& a : p.aliases) b.results[a.result] = const_cast<void*>(b.arguments[a.argument]);
  return b;
}

}  // namespace etrace::bench
