// Where the credit of traced weights goes. Private to compiler/ and report/.
#pragma once

#include "compiler/program_index.h"
#include "etrace/graph.h"

namespace etrace {

// Of all_relations(): those whose hidden states act on results of later steps, but of the same step on none,
// and on later ones through states of which the relation's weights have no trace. Their traces meet no
// signal: in single steps the gradient that they carry is zero, whatever the loss is.
struct TraceWithoutSignal {
  std::size_t relation;
  std::vector<StatePath> through;  // the states by which the credit leaves
};
std::vector<TraceWithoutSignal> traces_without_signal(const ETraceGraph&);

void report_traces_without_signal(const ETraceGraph&, Reporter&);

}  // namespace etrace
