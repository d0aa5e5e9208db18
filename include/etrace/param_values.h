// One array per leaf of every parameter of a model: gradients, or the parameters themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/module.h"

#pragma GCC visibility push(default)
namespace etrace {

// A leaf of a parameter: {"rnn", "Wz", "weight"} with the key "bias"; the key of a bare array is empty.
struct ParamLeafId {
  StatePath path;
  std::int64_t leaf = 0;  // position among the parameter's leaves
  std::string key{};
  friend bool operator==(const ParamLeafId&, const ParamLeafId&) = default;
};
std::string to_string(const ParamLeafId&);  // "rnn/Wz/weight.bias"; "out/W" for a bare array

// Values in the order of the leaves. An undefined value stands for zeros.
struct ParamValues {
  std::vector<ParamLeafId> leaves;
  Arrays values;

  // By the text of to_string(ParamLeafId), or by the path alone where the parameter has one leaf. ValueError
  // lists what there is.
  const Array& at(std::string_view name) const;
};

// The values for other leaves, in their order, undefined where there is none; nullopt if they lack one of its
// leaves.
std::optional<Arrays> values_for(const std::vector<ParamLeafId>&, const ParamValues&);

// Every leaf of every parameter of the model, in the order of states(model, Param).
std::vector<ParamLeafId> param_leaf_ids(const Module&);
ParamValues param_values(const Module&);
void set_param_values(Module&, const ParamValues&);  // ValueError names a leaf that the model does not have

}  // namespace etrace
#pragma GCC visibility pop
