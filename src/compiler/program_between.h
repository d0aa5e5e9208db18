// The part of a program that leads from one value to others.
#pragma once

#include <functional>

#include "compiler/program_index.h"

namespace etrace {

// What `from` influences by equations that `enters` lets in, as far as `to` needs it; all else is constant
// (constvars). Values that `passes` refuses do not hand on what they got from `from`.
Jaxpr program_between(const ProgramIndex&, const Var& from, const std::vector<Var>& to,
                      const std::function<bool(const Eqn&)>& enters,
                      const std::function<bool(const Var&)>& passes);

}  // namespace etrace
