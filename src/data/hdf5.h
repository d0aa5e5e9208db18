// HDF5, opened when it is needed: the library works without it, and says which package brings it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::data {

// Runs `read` in a process of its own, which HDF5 may crash or keep busy: it does so on some damaged files.
// ValueError then; what `read` throws is left to the caller, who reads again.
void try_hdf5(const std::string& path, const std::function<void()>& read);

// Whether a library of HDF5 can be opened here, and which; empty: none.
std::string hdf5_library();

// A file that is read. IoError: no library, no file; ValueError: it is no HDF5 file, or damaged.
class Hdf5File {
 public:
  explicit Hdf5File(const std::string& path);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;

  bool has(const std::string& dataset) const;
  // Rows of a data set: of variable length, or of a matrix. The error names the data set, and the row.
  std::int64_t rows(const std::string& dataset) const;
  std::vector<std::vector<float>> float_rows(const std::string& dataset, std::int64_t first,
                                             std::int64_t count) const;
  std::vector<std::vector<std::int64_t>> integer_rows(const std::string& dataset, std::int64_t first,
                                                      std::int64_t count) const;
  std::vector<std::int64_t> integers(const std::string& dataset) const;  // one axis
  std::vector<std::string> strings(const std::string& dataset) const;    // one axis

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etrace::data
#pragma GCC visibility pop
