// The filter behind e-prop's traces, as the graph says it. Private to learn/.
//
// A leaky readout r ← λ·r + W·z remembers what a layer told it, but the layer's traces do not know: the
// credit of a step ends with it. A filter ē ← λ·ē + e behind the traces is the readout's memory on the
// layer's side. The readout's own weight has a trace in r, which remembers already: what is said to r meets
// e.
#pragma once

#include "etrace/graph.h"
#include "etrace/rules.h"

#pragma GCC visibility push(default)
namespace etrace {

struct ReadoutFilter {
  std::optional<double> kappa = {};          // none: no filter
  std::vector<std::string> unfiltered = {};  // paths of hidden states whose signals meet e
  // Whether signals at the entry of a window meet ē. Inside of a window reverse mode leads through the
  // readout, so that they tell of other ways.
  bool at_entry = true;
  std::string readouts = {};  // that kappa was found in: "out/r"
  std::string text = {};      // "kappa 0.905 of out/r"; "no filter: there is no leaky readout"
};
ReadoutFilter readout_filter(const ETraceGraph&, std::optional<double> kappa, const RuleSettings&);

// The rule would filter as a readout does, there is none with a known decay, and it has no other filter: why.
// Empty: it has one, or wants none.
std::string why_without_filter(const LearningRule&, const ETraceGraph&);

// What a reader of explain should know about leaky readouts: a sentence each.
std::vector<std::string> readout_notes(const ETraceGraph&);

}  // namespace etrace
#pragma GCC visibility pop
