// An ETraceGraph in forms to look at and to pass on. The text form is ETraceGraph::explain().
#pragma once

#include <string>

#include "etrace/graph.h"

#pragma GCC visibility push(default)
namespace etrace {

// Everything the compiler found, as one JSON object with a stable order ("format": "etrace.graph"). Notes are
// sentences to go with it.
std::string explain_json(const ETraceGraph&, const std::vector<std::string>& notes = {});
// A Graphviz drawing: weights, operators, hidden groups; edges coloured by path classification.
std::string explain_dot(const ETraceGraph&);
// One self-contained page: the drawing, tables, diagnostics, trace memory and the program. Loads nothing.
std::string explain_html(const ETraceGraph&);

}  // namespace etrace
#pragma GCC visibility pop
