#pragma once

#include "bind.h"

namespace etrace::python {

// A learning rule with its options. Immutable.
struct Rule {
  std::shared_ptr<const LearningRule> rule;
};

}  // namespace etrace::python
