// What a scope leaves out of the recurrence: ways from hidden states at t-1 to hidden states at t that no
// group's transition holds. Private to compiler/.
#pragma once

#include "compiler/program_index.h"
#include "etrace/compiler.h"

#pragma GCC visibility push(default)
namespace etrace {

// Pass 2 without the records of what is left out: a loop that is traced inside makes them when its groups
// have got their numbers.
std::vector<HiddenGroup> find_groups(const ModuleInfo&, Reporter&, const CompileOptions&);

// Fills HiddenGroup::dropped.
void find_dropped_ways(const ModuleInfo&, std::vector<HiddenGroup>&, const CompileOptions&);

// One record per way. The reference has no such records, so there are none under compat.
void report_dropped_ways(const HiddenGroup&, const CompileOptions&, Reporter&);

bool is_product(const DroppedWay&);  // of a matrix or kernel, trainable or plain
// "etp_mv of cell/W", "plain dot_general of g", "while"
std::string operator_text(const DroppedWay&);
// All of them, each once: "etp_mv of a, b; plain dot_general of g". At most `most` weights of one kind by
// name.
std::string operators_text(const std::vector<const DroppedWay*>&, std::size_t most);
// "diagonal", "coupled", "snap2"
std::string scope_name(const CompileOptions&);

}  // namespace etrace
#pragma GCC visibility pop
