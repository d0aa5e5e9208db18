// What the compiler found: plain data in ordered vectors, printable and comparable. Start with ETraceGraph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "etrace/array.h"
#include "etrace/diagnostics.h"
#include "etrace/ir.h"
#include "etrace/model_io.h"
#include "etrace/trace_memory.h"

#pragma GCC visibility push(default)
namespace etrace {

// Control flow ----------------------------------------------------------------------------------------------
struct ControlFlowPolicy {
  enum class Cond : std::uint8_t { Convert, Opaque } cond = Cond::Convert;
  std::int64_t scan_unroll_limit = 16;  // ≤ 0 disables
  enum class WhileHidden : std::uint8_t { OpaqueForward, Error } while_hidden = WhileHidden::OpaqueForward;
  enum class EtpInside : std::uint8_t { Error, Exclude } etp_in_control_flow = EtpInside::Error;
  enum class Descent : std::uint8_t { Auto, Off } scan_descent = Descent::Auto;
  std::int64_t fixpoint_iteration_limit = 64;  // ≥ 1: ValueError otherwise
};

// Options ---------------------------------------------------------------------------------------------------
enum class Compat : std::uint8_t { None, Braintrace };

struct CompileOptions {
  bool include_hidden_perturb = true;
  bool include_recurrent_mixing = false;  // scope `coupled`: recurrent products stay inside the transition
  std::optional<std::int64_t> sparse_n;   // SnAp order; needs include_recurrent_mixing
  std::int64_t snap_max_jacobian_elements = std::int64_t{1} << 24;
  // Weights that reach hidden states only through other trainable operators are related to them, too:
  // ETraceGraph::composite_relations.
  bool composite = false;
  ControlFlowPolicy control_flow;
  Compat compat = Compat::None;  // Braintrace: reproduce the reference system's decisions, defects included
  bool strict = false;           // a warning is an error
  // Samples in the leading axis of every hidden state; ValueError if one has no such axis. None: as the
  // batched operators of the step have them.
  std::optional<std::int64_t> batch_size;
};

struct TrainableSource;

// The module ------------------------------------------------------------------------------------------------
struct HiddenInfo {
  StatePath path;
  std::string type;        // HiddenState, HiddenGroupState, …
  Var invar, outvar;       // value at step entry and exit
  Shape varshape;          // without the state axis
  std::int64_t num_state;  // 1, or the size of the state axis
  bool stacked() const { return type != "HiddenState" && invar.aval.shape.rank() > varshape.rank(); }
};
struct WeightInfo {
  StatePath path;
  std::vector<Var> invars;  // one per leaf, in leaf order
  std::vector<StatePath> leaf_keys;
};

// The compiler's view of a traced step.
struct ModuleInfo {
  Model model;                      // what came in: program and the role of every input and output
  ClosedJaxpr closed_jaxpr;         // canonicalised
  std::vector<HiddenInfo> hidden;   // compiled order: the master ordering for everything below
  std::vector<WeightInfo> weights;  // compiled order
  std::vector<StatePath> compiled_model_states;  // every state, in order of first touch
  std::size_t num_var_out = 0;                   // results of the step
  std::size_t num_var_state = 0;                 // state leaves among the outputs
  ControlFlowPolicy control_flow;
  // Samples in the leading axis of the hidden states: from the options, or from the batched operators of the
  // step if they agree. None: there is no batch, or nothing tells.
  std::optional<std::int64_t> batch_size;
  std::vector<std::uint64_t> descended_scans;  // ids of equations that are traced inside

  // Var id -> index into hidden (by entry and exit Var) and weights (by leaf); of aliased states the last one
  // counts.
  std::unordered_map<std::uint64_t, std::size_t> invar_to_hidden, outvar_to_hidden, invar_to_weight;
  void add_hidden(HiddenInfo);
  void add_weight_leaf(const StatePath&, const Var&, const StatePath& leaf_key);

  bool is_descended(const Eqn&) const;
  const Jaxpr& jaxpr() const { return closed_jaxpr.jaxpr; }
  const HiddenInfo* hidden_of_invar(const Var&) const;
  const HiddenInfo* hidden_of_outvar(const Var&) const;
  const HiddenInfo* hidden_at(const StatePath&) const;
  const WeightInfo* weight_of(const Var&) const;                           // the owner of a leaf
  std::string leaf_name(const StatePath& param, std::int64_t leaf) const;  // "rnn/Wz/weight.bias"
  std::vector<std::string> leaf_names(const TrainableSource&) const;       // of all leaves it comes from
};

// Groups ----------------------------------------------------------------------------------------------------
// Which positions of a group may influence which, after n-1 steps (SnAp-n).
struct PositionPattern {
  std::int64_t n = 1;
  std::vector<std::vector<bool>> axes;  // per axis of varshape: closed matrix, row-major
  std::vector<Dims>
      neighbours;  // per position: itself, then those it influences, ascending; padded with itself
  std::vector<std::vector<bool>> valid;  // false on padding
  bool conservative = false;
  std::string reason;  // why it had to be conservative
  std::size_t num_neighbour() const { return neighbours.empty() ? 1 : neighbours[0].size(); }
  bool degenerate() const { return num_neighbour() == 1; }
};

// A scan that is traced inside: its body's values, stacked over the trip count.
struct ScanInfo {
  std::uint64_t eqn_id = 0;
  std::int64_t length = 0;
  std::vector<std::pair<Var, Var>> stacked;  // body Var -> outer Var with a leading axis
  const Var* outer(const Var& body) const;
};
struct Descent {
  ScanInfo scan;
  std::vector<Var> body_hidden_invars;
};

// A way from hidden states at t-1 to states of a group at t that the group's transition leaves out: it
// crosses an equation that mixes positions, or joins states of different shapes.
struct DroppedWay {
  std::uint64_t eqn_id = 0;
  const Primitive* primitive = nullptr;  // a trainable operator, a plain product, an opaque body …
  std::optional<StatePath> weight_path;  // the parameter that it multiplies by, if there is one
  std::vector<StatePath> from, to;       // states that enter it, and states of the group that it reaches
  bool kept_when_coupled = false;        // scope `coupled` has it in a transition
  Origin origin;
};

struct HiddenGroup {
  std::size_t index = 0;
  std::vector<StatePath> hidden_paths;
  std::vector<HiddenInfo> hidden_states;
  std::vector<Var> hidden_invars, hidden_outvars;
  Jaxpr transition_jaxpr;  // constvars: values of the forward pass; hidden_invars -> hidden_outvars
  bool is_diagonal_recurrence = true;  // proven: position p at t depends on position p at t-1 only
  std::string mixing_reason;           // why it is not proven
  std::optional<PositionPattern> snap;
  std::optional<Descent> descent;
  std::optional<std::int64_t> batch_size;  // given: the leading axis of varshape counts samples
  std::vector<DroppedWay> dropped;         // what of its recurrence is not in transition_jaxpr

  Shape varshape() const { return hidden_states.front().varshape; }
  std::int64_t batch() const { return batch_size.value_or(1); }
  Shape sample_shape() const { return batch_size ? varshape().without(0) : varshape(); }
  std::int64_t num_state() const;
  std::int64_t trace_state_width() const;  // num_state, times the neighbours under SnAp
  const std::vector<Var>& transition_jaxpr_constvars() const { return transition_jaxpr.constvars; }

  Array concat_hidden(ArraySpan) const;     // [*varshape, S]; ValueError for a wrong count
  Arrays split_hidden(const Array&) const;  // ValueError for a wrong width
  Arrays transition(ArraySpan hidden, ArraySpan consts) const;
  Array diagonal_jacobian(ArraySpan hidden,
                          ArraySpan consts) const;                // [*varshape, S, S] (or widened under SnAp)
  Array full_jacobian(ArraySpan hidden, ArraySpan consts) const;  // [*varshape, S, *varshape, S]
};

// Relations -------------------------------------------------------------------------------------------------
enum class PathClassification : std::uint8_t { AllDirect, AllThroughOtherEtp, Mixed };
std::string_view name(PathClassification);  // "all_direct"

// How a trainable operand comes from parameters.
struct TrainableSource {
  std::string key;  // "weight"
  std::size_t operand = 0;
  Var var;         // the operand itself
  StatePath path;  // the (first) parameter
  std::int64_t leaf = 0;
  std::vector<std::string> processing_chain;  // primitives between the leaf and the operand
  Jaxpr processing;                           // leaves (invars) -> operand; empty if the operand is the leaf
  std::vector<std::pair<StatePath, std::int64_t>>
      leaves;  // one per invar of `processing`, or the leaf itself
};

struct HiddenParamOpRelation {
  const Primitive* primitive = nullptr;
  std::uint64_t eqn_id = 0;
  std::optional<Var> x_var;
  Var y_var;
  Params eqn_params;
  std::vector<Atom> operands;        // of the equation, as compiled
  std::vector<bool> fixed_operands;  // parallel: the same in all steps, from parameters or constants
  std::vector<TrainableSource> trainables;
  std::vector<std::size_t> hidden_groups;       // indices into the graph's groups
  std::vector<Jaxpr> y_to_hidden_group_jaxprs;  // parallel: y -> the group's outvars
  std::vector<std::string> tail_reasons;  // parallel: why the tail is not position preserving; empty if it is
  std::vector<StatePath> connected_hidden_paths;
  std::vector<PathClassification> path_classification;  // parallel to connected_hidden_paths
  std::optional<ScanInfo> control_flow_context;

  const StatePath& path() const { return trainables.front().path; }
  const TrainableSource* trainable(std::string_view key) const;
};

// Perturbation ----------------------------------------------------------------------------------------------
// Each update h = f(…) becomes h = f(…) + p, so that dL/dh is read off dL/dp.
struct HiddenPerturbation {
  std::vector<Var> perturb_vars;  // one per hidden state, compiled order
  std::vector<StatePath> perturb_hidden_paths;
  std::vector<HiddenInfo> perturb_hidden_states;
  ClosedJaxpr perturb_jaxpr;  // inputs of the module, then the p's

  Arrays init_perturb_data() const;
  Arrays eval_jaxpr(ArraySpan inputs, ArraySpan perturb_data) const;
  // Per group, concatenated over its states.
  Arrays perturb_data_to_hidden_group_data(ArraySpan data, const std::vector<HiddenGroup>&) const;
};

// The graph -------------------------------------------------------------------------------------------------
struct ETraceGraph {
  CompileOptions options;  // what it was compiled with
  ModuleInfo module_info;  // program extended by every value the runtime needs
  std::vector<HiddenGroup> hidden_groups;
  std::vector<HiddenParamOpRelation> hidden_param_op_relations;
  // With the option `composite`: operators whose result comes to hidden states through other trainable ones,
  // besides direct ways or without any. Their y_to_hidden_group_jaxprs lead through these.
  std::vector<HiddenParamOpRelation> composite_relations;
  std::vector<const HiddenParamOpRelation*> all_relations() const;  // those two, one after the other
  std::optional<HiddenPerturbation> hidden_perturb;
  std::vector<CompilationRecord> diagnostics;

  const HiddenGroup* hid_path_to_group(const StatePath&) const;
  struct Filter {
    std::optional<StatePath> weight_path, hidden_path;
    std::optional<DiagnosticKind> kind;
  };
  std::vector<CompilationRecord> explain_records(const Filter&) const;
  // For a reader: what is learned online, what is not and why, what is left out of the recurrence, and the
  // records by kind. Notes are sentences that stand at the end.
  std::string explain(const std::vector<std::string>& notes = {}) const;
};

// A reader's summary; a view, computes nothing anew.
struct CompilationReport {
  explicit CompilationReport(const ETraceGraph&);

  struct Weight {
    StatePath path;
    std::string key;
    std::vector<std::size_t> groups;
    std::string name;  // of its leaves: "rnn/Wz/weight.bias"
    bool composite = false;
  };
  struct Excluded {  // leaves of one parameter that are not learned online
    StatePath path;
    std::optional<DiagnosticKind> reason;
    std::string name;
  };
  std::vector<std::pair<std::size_t, std::vector<StatePath>>> hidden_groups;
  std::vector<Weight> etrace_weights;      // one per relation and trainable key
  std::vector<Excluded> excluded_weights;  // one per parameter
  std::vector<StatePath> dynamic_states;   // carried from step to step, in no group
  std::vector<TraceMemory> memory;         // one per rule that runs in the graph's scope
  std::vector<std::string> relations;      // names of their weights: "rnn/Wz/weight.bias, …"
  std::vector<CompilationRecord> diagnostics;
  std::size_t warnings = 0, errors = 0;

  std::string to_string(int level = 1) const;  // 2 adds warnings and errors
};

}  // namespace etrace
#pragma GCC visibility pop
