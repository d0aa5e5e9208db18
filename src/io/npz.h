// NumPy's files: one array (npy), and an archive of them (npz: a zip file with one npy file per array).
// Private to the library.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace {

// The whole archive, stored without compression. ValueError and NotSupportedError as etrace/save.h says.
std::string write_npz(const Named<Tensor>& tensors);

// Arrays in the order of the archive; those in Fortran order are transposed. CompilationError or
// NotSupportedError with the source's name and the place.
Named<Tensor> read_npz(std::string_view bytes, const std::string& source);
// The same with arrays of texts ('<U5', '|S5'), which no tensor can hold.
struct NpzArrays {
  Named<Tensor> tensors;
  Named<std::vector<std::string>> texts;  // UTF-8, in the order of memory
};
NpzArrays read_npz_with_texts(std::string_view bytes, const std::string& source);

// Any zip archive: the names and contents of the files in it that are wanted, in its order. CompilationError
// or NotSupportedError as above.
std::vector<std::pair<std::string, std::string>> read_zip_members(
    std::string_view bytes, const std::string& source, const std::function<bool(const std::string&)>& wanted);

// One array of an archive; `name` is for errors.
std::string write_npy(const Tensor&, const std::string& name);
Tensor read_npy(std::string_view bytes, const std::string& name);

}  // namespace etrace
#pragma GCC visibility pop
