// Models on which D-RTRL is exact: every eligibility-trace operator, with biases and weight functions,
// feeding hidden states of several kinds whose transitions keep positions apart.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/step_model.h"

namespace etrace::testing {

struct OperatorCase {
  std::string name;
  std::vector<StepInput> inputs;  // arguments and parameters
  Shape y;                        // of the hidden states
  std::function<Array(const In&)> drive;
};
const std::vector<OperatorCase>& operator_cases();
const OperatorCase& operator_case(const std::string& name);

// What y drives. With s(·) = sin, t(·) = tanh:
//   Single   h ← 0.7 s(h) + t(y + 0.3 h)
//   Coupled  v ← 0.7 s(v) + t(y) − 0.2 a,  a ← 0.85 a + 0.3 t(v), both of the old values
//   Chain    g ← 0.8 g + t(y),  v ← 0.6 s(v) + g·(1 + 0.2 v) with the new g; the result reads both
//   Stacked  Coupled in one state with a trailing axis
enum class Structure { Single, Coupled, Chain, Stacked };
inline constexpr Structure kStructures[] = {Structure::Single, Structure::Coupled, Structure::Chain,
                                            Structure::Stacked};
std::string name(Structure);
Model operator_model(const OperatorCase&, Structure = Structure::Single, std::uint64_t seed = 1);

using ModelInputs = std::vector<StepInput>;
// The same inputs with every floating value in another type.
ModelInputs in_type(Dtype, ModelInputs);
// The value at the start of a sequence.
void set_initial(Model&, const std::string& path, const Array& value);

}  // namespace etrace::testing
