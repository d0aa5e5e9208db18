// Files that are not as they should be, one per seed: of every kind that is read, with bytes turned, numbers
// at their bounds, words of other formats, and names in any bytes. A reader takes them or says what is wrong:
// no crash, no exception that is not ours, no infinity that nobody was told of.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace etrace::testing {

struct OddFile {
  std::string kind;                                        // "csv", "npz", "model", …
  std::vector<std::pair<std::string, std::string>> files;  // names below a folder, and their bytes
  std::string read;                                        // what is read of them
  std::string format;                                      // of data; empty: as it is recognised
  std::vector<std::pair<std::string, std::string>> options = {};
};

// Whole files that the readers of tests have in their folders: model files, and HDF5 ones.
struct OddSeeds {
  std::vector<std::string> models, hdf5;
  static OddSeeds from(const std::string& source_folder);
};

OddFile odd_file(std::uint64_t seed, const OddSeeds&);
// A name of anything, from bytes that are none to what spreadsheets, shells, C and JSON take for theirs.
std::string odd_name(std::uint64_t seed);

// Writes the files below the folder and reads them. Empty: as it must be; else what was wrong. `refused`: an
// error said so.
std::string read_odd(const std::string& folder, const OddFile&, bool& refused);

}  // namespace etrace::testing
