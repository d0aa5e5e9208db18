// A learning rule written in Python: traces as ParameterTraces keeps them, and Python functions for what
// becomes of the signal and of the Jacobian, recorded with the programs that use them.
#pragma once

#include "etrace/parameter_traces.h"
#include "etrace/save.h"
#include "rules.h"

namespace etrace::python {

// What Python says once, when the rule is made. Functions are looked up in the Call under way by `identity`:
// the rule itself holds no Python object.
struct PythonRuleForm {
  const void* identity = nullptr;
  std::string name, theory;
  bool signal = false, jacobian = false;  // functions that the Python class defines
  ParameterTraceOptions traces = {};
};

std::shared_ptr<const LearningRule> make_python_rule(PythonRuleForm);

// Arrays that the rule holds, under the names that learners have for them, as they are now.
NamedTensors own_arrays(nb::handle rule);

}  // namespace etrace::python
