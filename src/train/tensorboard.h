// Curves as TensorBoard reads them: records of length, checksum, Event message, checksum. No library needed.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::train {

// Messages as they stand in a file; `seconds`: wall time since 1970.
std::string version_record(double seconds);
using Scalars = std::vector<std::pair<std::string, double>>;
std::string scalar_record(double seconds, std::int64_t step, const Scalars&);

class EventFile {
 public:
  EventFile() = default;  // keeps none
  // A new file in the folder; a run that goes on starts another one. IoError if it cannot be written.
  explicit EventFile(const std::string& folder);
  void write(std::int64_t step, const Scalars&);  // IoError

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace etrace::train
#pragma GCC visibility pop
