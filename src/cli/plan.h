// Programs of a learner as JSON, for `plan` and `explain`.
#pragma once

#include <nlohmann/json.hpp>

#include "etrace/plan.h"

namespace etrace::cli {

// Slices for a loss of the first result: one per argument, then its target. ValueError if there is no result.
Avals slices_of(const Model&);
nlohmann::json program_json(const Program&, bool equations);
// Every program of D_RTRL on this graph with the squared error, ports alone; empty if nothing is learned
// online.
nlohmann::json programs_of(const ETraceGraph&);

}  // namespace etrace::cli
