// The part of a program that leads from one value to others.
#pragma once

#include <functional>
#include <optional>

#include "compiler/program_index.h"

namespace etrace {

// What `from` influences by equations that `enters` lets in, as far as `to` needs it; all else is constant
// (constvars). Values that `passes` refuses do not hand on what they got from `from`.
Jaxpr program_between(const ProgramIndex&, const Var& from, const std::vector<Var>& to,
                      const std::function<bool(const Eqn&)>& enters,
                      const std::function<bool(const Var&)>& passes);

// The same program, seen along the ways that lead through an equation that `crosses` names; influence by
// others is left out. Results that no such way leads to are constants. None: there is no such result.
std::optional<Jaxpr> program_across(const ProgramIndex&, const Var& from, const std::vector<Var>& to,
                                    const std::function<bool(const Eqn&)>& crosses,
                                    const std::function<bool(const Var&)>& passes);

// The equations by which results of a program have derivatives, in order: without what leads to them through
// stop_gradient, through numbers that are not floating, or as the choice of a branch alone.
std::vector<const Eqn*> derivative_ways(const Jaxpr&, const std::vector<Atom>& results);

}  // namespace etrace
