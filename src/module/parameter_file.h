// Files of parameters in two steps, for callers that look at the file before its values enter a model.
// What etrace/save.h offers in one is made of these.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "etrace/save.h"

#pragma GCC visibility push(default)
namespace etrace {

TensorFile parameter_file(const Module&);
TensorFile read_parameter_file(const std::string& path);
// An npz file holds no metadata: there it is left out.
void write_parameter_file(const std::string& path, TensorFile);

// The tensors of a file in the order of what is wanted, if all names, shapes and types agree. ValueError
// lists those that do not; `path` is the name of the file in it.
using WantedParameters = std::vector<std::pair<std::string, Aval>>;
Tensors fitting_parameters(const WantedParameters&, const TensorFile&, const std::string& path);
void set_parameters(Module&, const TensorFile&, const std::string& path);

}  // namespace etrace
#pragma GCC visibility pop
