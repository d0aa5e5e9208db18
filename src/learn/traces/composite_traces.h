// Traces of weights that come to hidden states only through other trainable operators: one over all pairs of
// a state's position and a slot, as a part of ParameterTraces.
//
//   e[x, slot] ← D[x]·e[x, slot] + C[x, q(slot)]·∂y[q(slot)]/∂θ[slot]        C = ∂h/∂y, all pairs
//
// Seen from a position x of the states this is an ordinary trace at the operator's output positions q, whose
// Jacobian does not depend on q. So every position is a lane of trace_window, as samples are, and a window of
// K steps passes the trace once. Where the rows of a batched operator are not the samples of the states, all
// of them act on every lane; they stand as steps of their own.
#pragma once

#include "learn/traces/operator_rules.h"
#include "learn/traces/routing.h"
#include "learn/traces/window.h"

namespace etrace {

// ∂h/∂y through a chain, all pairs: [*varshape, S, positions of y]. By forward mode over the positions of y
// or by reverse mode over those of the states, whichever are fewer; samples do not act on each other.
Array chain_derivative(const HiddenParamOpRelation&, const Jaxpr& chain, const HiddenGroup&, ArraySpan consts,
                       const Array& y);

struct CompositeTraceOptions {
  std::string rule;                       // for errors
  std::optional<Dtype> trace_dtype = {};  // what traces are kept in
  std::int64_t copies = 1;                // of the group's states, where the rule follows a lift of them
  std::int64_t max_bytes = 0;             // of all of these traces together
};

// What a window gives to all traces of one group.
struct CompositeGroupWindow {
  CarriedWindow carried;
  Array entry;                                          // signal [1, M, X]; undefined: none
  std::function<Array(const Array& derived)> injected;  // [K, S, X, …] -> [K, M, X, …]: lifted, frozen
};

class CompositeTraces {
 public:
  // NotSupportedError names weights, bytes and the budget if they take more than that.
  CompositeTraces(const ETraceGraph&, const CompositeTraceOptions&);  // the graph must outlive it

  const std::vector<TraceSlot>& slots() const { return slots_; }
  // Per trace; value [*varshape, slots…, M].
  std::vector<EligibilityTrace> shown(ArraySpan memory) const;
  Arrays keep(const StepData&) const;
  // New traces; gradients go to the router. `kept`: what keep() gave, [K, …].
  Arrays advance(const WindowData&, ArraySpan kept, ArraySpan memory,
                 const std::vector<CompositeGroupWindow>&, GradientRouter&) const;
  // signal: per group [1, M, X].
  void contract(const WindowData&, ArraySpan memory, ArraySpan signal, GradientRouter&) const;

 private:
  struct Trace {
    std::size_t relation, group_of_relation;
    const TrainableSource* trainable;
    const HiddenGroup* group;
    TraceSlots slots;
  };
  void require_budget(const CompositeTraceOptions&) const;
  const HiddenParamOpRelation& relation_of(const Trace& t) const {
    return g_.composite_relations[t.relation];
  }

  const ETraceGraph& g_;
  std::vector<Trace> traces_;
  std::vector<TraceSlot> slots_;  // parallel
};

}  // namespace etrace
