// How the first value of a state follows from the place of its module.
#pragma once

#include "etrace/module.h"

namespace etrace {

struct State::Draw {
  std::function<NamedArrays()> values;
  std::vector<std::string> place;
  bool again = false;  // the module has been attached somewhere since
};

}  // namespace etrace
