// The model file: one traced step of a model and, optionally, what a compiler and a learner must make of it.
// JSON, format "etrace.model", version 1. Start with Model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etrace/ir.h"
#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

class State;

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
  // States: whether the leading axis counts samples; none: not known.
  std::optional<bool> per_sample{};
};
// What an input of the program is: an argument of the step, or the old value of a state.
struct InputRecord : OutputRecord {
  Tensor init;  // states: the value at the start of a sequence; undefined for arguments
  // States of a module: the place itself while it lives, by which a loss that reads it is understood. Files
  // do not have it.
  std::weak_ptr<const State> place{};
};

// The file --------------------------------------------------------------------------------------------------
struct Expected;
struct Model {
  std::string name, source, equations, note;
  ClosedJaxpr program;                // one time step, states as extra inputs and outputs
  std::vector<InputRecord> inputs;    // one per program.jaxpr.invars
  std::vector<OutputRecord> outputs;  // one per program.jaxpr.outs
  std::shared_ptr<const Expected>
      expected;  // what a compiler and a learner must make of it; etrace/expected.h
  // States of the module that the step neither reads nor writes, with their paths. Files do not have them.
  std::vector<std::pair<StatePath, std::weak_ptr<const State>>> unused{};
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
#pragma GCC visibility pop
