// Composite relations: a weight whose operator comes to hidden states only through other trainable operators.
// There is no position of a state that it belongs to, so that its trace is one over all pairs of a state and
// a slot.
//   e[p, slot] ← D[p]·e[p, slot] + Σ_q ∂h[p]/∂y[q]·∂y[q]/∂θ[slot]
#pragma once

#include "compiler/program_index.h"
#include "etrace/graph.h"

namespace etrace {

// Fills in groups, states and chains: the programs from y to the states of each group, through whatever lies
// between. A state of another group ends them, because what it hands on is in the signal to that state.
// `which`: all ways, or those through another trainable operator. False: none leads to a hidden state.
enum class Ways : std::uint8_t { All, ThroughOthers };
bool add_chains(const ProgramIndex&, const std::vector<HiddenGroup>&, Ways which, HiddenParamOpRelation&);

// Numbers that its traces hold: the slots of every trainable operand for every state.
std::int64_t composite_trace_numbers(const HiddenParamOpRelation&, const std::vector<HiddenGroup>&);

}  // namespace etrace
