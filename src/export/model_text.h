// NAME.c and NAME.h. Private to export/.
#pragma once

#include "emit/c_printer.h"
#include "export/device_plan.h"

namespace etrace::device {

struct ModelText {
  std::string header, source;
  std::int64_t scratch = 0, constants = 0;  // bytes
  std::vector<std::string> library;         // functions of the C library that it calls
};
// `about` says in a line what was exported; stack is the bound to state.
ModelText model_text(const DevicePlan&, const emit::EmitProgram& evolve, const emit::EmitProgram& learn,
                     const ExportOptions&, const std::string& about, std::int64_t stack);

// The name of the array that is carried: model_param_rnn_Wz_weight.
std::vector<std::string> array_names(const DevicePlan&, const std::string& prefix);

}  // namespace etrace::device
