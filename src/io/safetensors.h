// The safetensors format: the length of a header, the header as JSON, then the numbers without gaps. Private
// to the library.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace {

// The whole file. ValueError as etrace/save.h says.
std::string write_safetensors(const Named<Tensor>& tensors, const Named<std::string>& metadata);

// Tensors in the order of their data, and metadata. CompilationError or NotSupportedError with the source's
// name and the place.
std::pair<Named<Tensor>, Named<std::string>> read_safetensors(std::string_view bytes,
                                                              const std::string& source);

}  // namespace etrace
#pragma GCC visibility pop
