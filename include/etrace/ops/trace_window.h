// The one pass over an eligibility trace: K steps of its recursion and the gradient, together.
//
//   e[b,a,s] ← Σ_c P[a,c,b,p(s)]·e[b,c,s] + gain[s]·Σ_k x[k,b,i(s)]·q[k,a,b,p(s)]
//   G[s]     = Σ_{b,c} u[c,b,p(s)]·e[b,c,s] + gain[s]·Σ_{k,b} x[k,b,i(s)]·w[k,b,p(s)]        (e: the old one)
//              + the gradient so far, if there is one, to all of that
//
// A trace slot s belongs to the output position p(s), its anchor, and takes its data from i(s), its source.
// With P the product of the K Jacobians, q the injections carried to the end of the window, u the signal
// carried to its start and w that of each step, this is K steps of e ← D·e + x·f with the gradient of all of
// them; one step is K = 1 with P = D, q = f, u = Dᵀ·l, w = l·f. Slots of one parameter at several positions
// (position axes) are summed in G.
#pragma once

#include <optional>
#include <string>

#include "etrace/array.h"
#include "etrace/ops/sparse.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

// params: slots, position_axes, anchor_strides or anchor_table, source_strides or source_table, has_source,
// has_gain, has_entry, has_weighted, has_rounding, has_go, has_total; for people and planners: trace (its
// name), form, threads
extern const Primitive trace_window_p;
inline bool is_trace_pass(const Eqn& eqn) { return eqn.prim == &trace_window_p; }

struct TracePattern {
  Shape slots;                     // of one sample
  std::vector<int> position_axes;  // slot axes that the parameter does not have
  Dims anchor_strides;             // per slot axis: step of the flat position;
  SharedList anchor_table;         // or one position per slot
  Dims source_strides;             // the same for the source
  SharedList source_table;

  Dims parameter_dims() const;                // slots without the position axes
  std::vector<std::int64_t> anchors() const;  // per slot
  std::vector<std::int64_t> sources() const;
};

struct TraceWindow {
  std::string name;  // of the trace: "relation0/group0/weight"
  Array trace;       // [B, M, slots…]; f16 and bf16 are for storage, the sums are in the others' type
  Array transition;  // P [M, M, B, positions]
  Array source;      // x [K, B, elements]; undefined: 1
  Array injection;   // q [K, M, B, positions]
  Array gain;        // of the parameter's elements; undefined: 1
  Array entry;       // u [M, B, positions]; undefined: no gradient
  Array weighted;    // w [K, B, positions]; undefined: none
  Array rounding;    // key u32[] of stochastic rounding, for traces of 16 bits; undefined: to the nearest
  Array go;          // a truth value; false: the trace stays as it is, and nothing is added. Undefined: true
  Array total;       // gradient so far, parameter_dims(); undefined: none
};
struct TraceWindowResult {
  Array trace, gradient;  // gradient: parameter_dims(); undefined without entry
};
TraceWindowResult trace_window(const TracePattern&, const TraceWindow&);

// How a pass runs. Which code fits follows from the pattern and the number of steps K; sums are the same in
// every form but for their order.
enum class TraceForm : std::uint8_t {
  Step,      // K = 1, a dense weight: nothing is kept in between
  Tiles,     // K > 1, a dense weight: the steps' sums stay in registers and meet the trace there
  Products,  // K > 1: the steps' sums are matrix products, a block of rows at a time
  Rows,      // any: row by row
  Lines,     // slots named by tables, as of sparse weights
  Patches,   // parameters that feed many positions, as of convolutions
  Wide,      // eight states per slot or more, as of SnAp: a matrix product per position
};
const char* name(TraceForm);
std::optional<TraceForm> trace_form(std::string_view name);
// Whether a form is one for passes of so many steps at all.
bool concerns(TraceForm, std::int64_t steps);

struct TracePass {
  std::string trace;  // "relation0/group0/weight"
  std::int64_t steps = 0;
  TraceForm form = TraceForm::Rows;
  int threads = 1;     // among which the pass is divided
  std::string reason;  // why in this form, by so many
};
TracePass trace_pass_of(const Eqn&);                // of a trace_window
std::vector<TraceForm> forms_that_fit(const Eqn&);  // for its pattern and its steps

}  // namespace etrace
#pragma GCC visibility pop
