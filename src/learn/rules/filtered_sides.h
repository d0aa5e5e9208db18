// Traces as a product of two filtered sides, as an engine of rules.
#pragma once

#include "etrace/learning_rule.h"

namespace etrace {

struct SideOptions {
  std::string rule;  // for errors
  double decay_x = 0.0, decay_f = 0.0;
  bool leak_f = false;  // the output side is carried by its decay alone, without D
};
std::unique_ptr<const BoundRule> filtered_sides(const ETraceGraph&, const SideOptions&);

}  // namespace etrace
