// Series in memory as a file: the folder of a run keeps them in it, so that whoever goes on with the run,
// scores it or looks at it has the same bits.
#pragma once

#include <string>

#include "etrace/train.h"

#pragma GCC visibility push(default)
namespace etrace::train {

inline constexpr const char* kDataCopy = "data.npz";

// The bytes of an npz file. ValueError: shapes or types that are no series with a label each, lengths beyond
// the steps, numbers that are not finite.
std::string data_file_of(const TrainArrays&);

// What settings say of their data: "arrays CHECKSUM" of series in memory and of the copy that a run keeps,
// otherwise the file as it is named.
std::string data_words(const TrainSettings&, const std::string& file);
// The same back: `folder` is that of the run. ValueError: it keeps no copy.
std::string file_of_words(const std::string& words, const std::string& folder);

}  // namespace etrace::train
#pragma GCC visibility pop
