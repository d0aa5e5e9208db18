#include "cli/sequence.h"

#include <algorithm>

#include "etrace/error.h"

namespace etrace::cli {

const ExpectedRun* reference_run(const Model& m) {
  if (!m.expected || !m.expected->runs) return nullptr;
  for (const ExpectedRun& r : *m.expected->runs)
    if (r.args) return &r;
  return nullptr;
}

std::vector<std::size_t> inputs_with(const Model& m, std::initializer_list<Role> roles) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (std::find(roles.begin(), roles.end(), m.inputs[i].role) != roles.end()) out.push_back(i);
  return out;
}

std::size_t output_of_state(const Model& m, const InputRecord& state) {
  for (std::size_t i = 0; i < m.outputs.size(); ++i)
    if (m.outputs[i].role == state.role && m.outputs[i].path == state.path && m.outputs[i].leaf == state.leaf)
      return i;
  throw CompilationError("check", "state " + to_string(state.path) + " has no new value among the outputs");
}

}  // namespace etrace::cli
