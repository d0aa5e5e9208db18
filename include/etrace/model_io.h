// The model file: one traced step of a model and, optionally, what a compiler and a learner must make of it.
// JSON, format "etrace.model", version 1. Start with Model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etrace/ir.h"
#include "etrace/tensor.h"

namespace etrace {

// Names of attributes, and indices or keys of containers: {"layers", 0, "weight"}.
using PathPart = std::variant<std::string, std::int64_t>;
using StatePath = std::vector<PathPart>;
std::string to_string(const StatePath&);  // "layers/0/weight"

// A dictionary of the file, sorted by key.
template <class T>
using Named = std::vector<std::pair<std::string, T>>;

// The interface of the step ---------------------------------------------------------------------------------
enum class Role : std::uint8_t { Arg, Param, Hidden, Other, Out };
std::string_view name(Role);  // "arg", "param", "hidden", "other", "out"

// What an output of the program is: a result of the step, or the new value of a state.
struct OutputRecord {
  Role role = Role::Out;
  std::int64_t index = 0;  // Arg, Out: which argument or result
  StatePath path{};        // states: the module path of the owner
  std::int64_t leaf = 0;   // states: position among the owner's leaves
  StatePath leaf_key{};    // states: the leaf's own key; empty for a bare array
  std::string type{};      // states: the class its author named, "ParamState", "HiddenState" …
};
// What an input of the program is: an argument of the step, or the old value of a state.
struct InputRecord : OutputRecord {
  Tensor init;  // states: the value at the start of a sequence; undefined for arguments
};

// What the file expects -------------------------------------------------------------------------------------
// Everything
// is optional; what is absent is not compared. A Tensor that is absent is undefined, a text is empty.
struct SnapPattern {  // the neighbourhood of a group under SnAp-n
  std::int64_t n = 0, num_neighbour = 0;
  std::vector<Dims> neighbours;          // per position; padded to num_neighbour
  std::vector<std::vector<bool>> valid;  // false: padding
  bool conservative = false;
  std::string reason;
};
struct ExpectedGroup {
  std::int64_t index = 0;
  std::vector<StatePath> hidden_paths;
  Dims varshape;
  std::int64_t num_state = 0;
  std::optional<SnapPattern> snap;
};
struct ExpectedTrainable {
  StatePath path;
  std::int64_t leaf = 0;
};
struct ExpectedRelation {
  std::string primitive;
  StatePath weight_path;
  Named<ExpectedTrainable> trainable;
  std::vector<StatePath> hidden_paths;
  Dims groups;                             // indices into the graph's groups
  Named<std::string> path_classification;  // "a/b" -> "all_direct", "all_through_other_etp", "mixed"
  Named<std::vector<std::string>> processing_chains;  // trainable -> primitives applied to it
  std::optional<Dims> x_shape;                        // empty for element-wise operators
  Dims y_shape;
};
struct ExpectedDiagnostic {
  std::string kind, level;
  std::optional<StatePath> weight_path;
  std::vector<StatePath> hidden_paths;
};
struct ExpectedGraph {
  std::optional<std::vector<ExpectedGroup>> groups;
  std::optional<std::vector<ExpectedRelation>> relations;
  std::optional<std::vector<ExpectedDiagnostic>> diagnostics;
};

struct ReferenceError {
  std::string type, message;
};
using TraceValue = std::variant<Tensor, Named<Tensor>>;  // one array, or one per trainable key
struct ExpectedRun {
  std::string id, algorithm;
  Attr options;                        // a dictionary; null if absent
  std::string graph, vjp_method;       // vjp_method: "single-step" or "multi-step"
  std::optional<std::int64_t> window;  // steps
  std::string loss;
  std::optional<Tensors> args;  // one per argument, leading axis time
  Tensor targets, outputs, losses;
  std::optional<Named<Tensor>> hidden;      // "a/b" -> after the last step
  std::optional<Named<Tensors>> grads;      // "a/b" -> one per leaf
  std::optional<Named<TraceValue>> traces;  // "relation0/group0", "relation0/x" …
  Attr feedback;                            // the reference's random feedback weights; null if absent
  std::string equals;                       // id of the run whose gradients these equal
  std::optional<bool> compat;               // reproduce under compat = braintrace only
  std::optional<ReferenceError> reference_error;
  std::optional<double> rtol, atol;
};
struct Expected {
  std::optional<Named<ExpectedGraph>> graphs;  // by recurrence scope
  std::optional<Named<Tensor>> jacobians;
  std::optional<std::vector<ExpectedRun>> runs;
};

// The file --------------------------------------------------------------------------------------------------
struct Model {
  std::string name, source, equations, note;
  ClosedJaxpr program;                // one time step, states as extra inputs and outputs
  std::vector<InputRecord> inputs;    // one per program.jaxpr.invars
  std::vector<OutputRecord> outputs;  // one per program.jaxpr.outs
  std::optional<Expected> expected;
};

// CompilationError names the file, the place in it (jaxpr.eqns[12].params.branches[0] …) and the primitive.
// What is read is well typed and consistent: every record fits its input or output, every hidden state has a
// new value. Spellings and parameters of JAX are mapped to ours; parameters without bearing on the meaning
// are dropped.
Model read_model(std::string_view json_text, const std::string& source_name = "model");
Model read_model_file(const std::string& path);  // also IoError

// Reading what is written gives an equal model. CompilationError for an inconsistent one; IoError leaves an
// existing file as it was.
std::string write_model(const Model&);
void write_model_file(const Model&, const std::string& path);

}  // namespace etrace
