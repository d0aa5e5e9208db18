// What a model file expects a compiler and a learner to make of it: reference cases, for `etrace check` and
// tests. Everything is optional; what is absent is not compared. A Tensor that is absent is undefined, a text
// is empty. Start with Expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace {

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
  std::optional<bool> compat;               // true: under compat = braintrace only; false: by default only
  std::optional<ReferenceError> reference_error;
  std::optional<double> rtol, atol;
};
struct Expected {
  std::optional<Named<ExpectedGraph>> graphs;  // by recurrence scope
  std::optional<Named<Tensor>> jacobians;
  std::optional<std::vector<ExpectedRun>> runs;
};

}  // namespace etrace
#pragma GCC visibility pop
