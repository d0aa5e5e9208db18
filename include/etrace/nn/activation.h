// Activations by name, as options and command lines give them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/array.h"

namespace etrace::nn {

using Activation = std::function<Array(const Array&)>;

Activation activation(std::string_view name);  // "relu", "tanh", "sigmoid" …; ValueError lists the names
std::vector<std::string> activation_names();   // ascending

}  // namespace etrace::nn
