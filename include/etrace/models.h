// Built-in models, for the command line and for examples: `etrace explain gru`.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "etrace/module.h"

#pragma GCC visibility push(default)
namespace etrace {

struct ModelOptions {
  Dims sizes = {};  // features of input, hidden layers, output; empty: the model's own
  std::optional<std::int64_t> batch = {};
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
  // For how many steps recurrent cells shall hold what they have taken in, at the start
  // (CellOptions::memory), and how slowly thresholds of adaptive neurons recover; 0: as the layers are by
  // themselves.
  double memory = 0.0;
  // How large inputs are: their root mean square over the steps that have any. Models of neurons scale the
  // rows of their synapses by it, so that the neurons fire; 0: not known.
  double input_rms = 0.0;
};

struct BuiltinModel {
  std::string_view name;
  std::string_view doc;                                  // one line
  Dims sizes;                                            // its own
  std::shared_ptr<Module> (*make)(const ModelOptions&);  // options complete
};
std::span<const BuiltinModel> builtin_models();                 // names ascending
const BuiltinModel* find_builtin_model(std::string_view name);  // null if there is none

// A model with initialised states, and an argument for one step.
struct ReadyModel {
  std::shared_ptr<Module> module;
  Arrays example;
};
ReadyModel make_model(std::string_view name, const ModelOptions& = {});  // ValueError lists the names

}  // namespace etrace
#pragma GCC visibility pop
