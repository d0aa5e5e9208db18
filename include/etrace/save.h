// Saving: tensors by name in files that other programs open too. Start with save_parameters, or with
// save_checkpoint for everything that a run needs to go on.
//
// A file is replaced as a whole: IoError names it and says why it could not be written, and the old file is
// as it was. A file that is not what it must be is refused with a CompilationError, one that is legal but
// not for us with a NotSupportedError; both name the file and the place in it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "etrace/module.h"
#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct TensorFile {
  NamedTensors tensors;
  std::vector<std::pair<std::string, std::string>> metadata{};  // 64-bit integers and seeds go here, as text
};

// ValueError: a name twice, a tensor without data, a text that is not UTF-8.
// safetensors: every element type. Tensors come back in the order of the file, which holds wider element
// types first and otherwise keeps the order given; metadata comes back sorted by key.
void save_safetensors(const std::string& path, const TensorFile&);
TensorFile load_safetensors(const std::string& path);

// NumPy's archive, without metadata (ValueError), without bfloat16 and beyond 4 GiB (NotSupportedError). The
// order is kept. Integers of 8 and 16 bits come back as i32.
void save_npz(const std::string& path, const TensorFile&);
TensorFile load_npz(const std::string& path);

// The parameters of a model under the names of to_string(ParamLeafId), in the format that the path ends with:
// .safetensors or .npz (ValueError otherwise). Loading changes nothing unless all tensors fit; ValueError
// lists what is missing, surplus, of another shape or of another type.
void save_parameters(const Module&, const std::string& path);
void load_parameters(Module&, const std::string& path);

// A safetensors file that says what it is and carries a checksum over all it holds: a damaged one is refused.
// The metadata keys "format", "version" and "checksum" belong to the file (ValueError) and do not come back.
void save_checkpoint(const std::string& path, const TensorFile&);
TensorFile load_checkpoint(const std::string& path);

}  // namespace etrace
#pragma GCC visibility pop
