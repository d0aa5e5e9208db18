// One random vector of states times one of parameters per group, as an engine of rules.
#pragma once

#include "etrace/learning_rule.h"
#include "etrace/rules.h"

namespace etrace {

std::unique_ptr<const BoundRule> random_projection(const ETraceGraph&, std::string rule,
                                                   const RandomProjectionOptions&);

}  // namespace etrace
