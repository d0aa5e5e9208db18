// Options by keyword.
#pragma once

#include "bind.h"

namespace etrace::python {

// Each throws TypeError or ValueError with the option's name.
std::int64_t integer(const char* what, nb::handle);
double number(const char* what, nb::handle);
bool flag(const char* what, nb::handle);
std::string text(const char* what, nb::handle);
std::vector<std::int64_t> integers(const char* what, nb::handle);
Reduction reduction(nb::handle);       // "mean", "sum"
UpdateEvery update_every(nb::handle);  // "step", "window", "sequence"
VjpMethod vjp_method(nb::handle);      // "single-step", "multi-step"
Compat compat(nb::handle);             // "none", "braintrace"
ControlFlowPolicy control_flow(nb::handle);

// A dictionary of options; None leaves one as it is. TypeError for a name that is none, with the nearest one.
using Fields = std::vector<std::pair<const char*, std::function<void(nb::handle)>>>;
void read_fields(const char* what, const nb::dict& given, const Fields&);
LearnerOptions learner_options(const nb::dict&);

}  // namespace etrace::python
