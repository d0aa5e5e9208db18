// The programs of reference cases: a forward step, a step with gradients and a window of K steps.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "etrace/etrace.h"
#include "etrace/expected.h"
#include "support/native.h"

namespace etrace::testing {

inline std::vector<std::string> reference_files() {  // sorted
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(ETRACE_REFERENCE_DIR))
    if (entry.path().extension() == ".json") out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

inline Program forward_step(const Model& m) {
  Program p = as_program(m.program);
  p.name = m.name + "_forward";
  return p;
}

// "step" or "window" of D_RTRL with the mean squared error of the first result. NotSupportedError if there is
// no gradient to be had.
inline Program gradient_program(const Model& m, const std::string& name, std::int64_t steps = 5) {
  Avals slices;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::Arg) {
      slices.resize(std::max(slices.size(), static_cast<std::size_t>(m.inputs[i].index) + 1));
      slices[static_cast<std::size_t>(m.inputs[i].index)] = m.program.jaxpr.invars[i].aval;
    }
  for (std::size_t i = 0; i < m.outputs.size(); ++i)
    if (m.outputs[i].role == Role::Out && m.outputs[i].index == 0)
      slices.push_back(aval_of(m.program.jaxpr.outs[i]));
  CompileOptions options;
  const D_RTRL rule;
  rule.configure(options);
  const ETraceGraph graph = compile_etrace_graph(m, options);
  const PlanBuilder builder(graph, rule, VjpMethod::SingleStep);
  const StepFunction loss = [](StepCall& step, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{loss::mse(step(args)[0], s.back())};
  };
  Program p = lean(builder.plan(loss, slices, steps).at(name));
  p.name = m.name + "_" + name;
  return p;
}

// Numbers for its arguments, from −1 to 1; ones for those that are no floats.
inline Tensors values_for(const Program& p) {
  Tensors out;
  for (const Port& port : p.arguments) {
    if (!is_floating(port.aval.dtype)) {
      out.push_back(Tensor::full(port.aval, std::int64_t{1}));
      continue;
    }
    const Array x = random::uniform(random::key(out.size()), port.aval.shape, Dtype::F64, -1.0, 1.0);
    out.push_back(convert(x, port.aval.dtype).tensor());
  }
  return out;
}

}  // namespace etrace::testing
