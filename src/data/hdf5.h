// HDF5, opened when it is needed: the library works without it, and says which package brings it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::data {

// Whether a library of HDF5 can be opened here, and which; empty: none.
std::string hdf5_library();
void require_hdf5(const std::string& path);  // IoError says what to install

// A file that is read, in a process of its own (base/child.h): HDF5 reads past its heap on some damaged
// files, crashes or does not come back. IoError: no library, no file; ValueError: it is no HDF5 file, or
// damaged.
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
