// A model file as a module, so that it can be trained, scored and saved as any other: parameters and states
// have the places that the file names, and a step evaluates the file's program.
#pragma once

#include <optional>
#include <string>

#include "etrace/models.h"

#pragma GCC visibility push(default)
namespace etrace::train {

struct FileModelWish {
  std::int64_t inputs = 0, outputs = 0;  // features that the task has
  std::int64_t batch = 1;
  Dtype dtype = Dtype::F32;
};
// A step of one sample runs for every sample of a batch; one of a batch wants batches of that size. `name` is
// that of the file, for errors. ValueError says what does not fit: number of arguments and results, features,
// batch, type; NotSupportedError: it keeps statistics over sequences.
ReadyModel model_of_file(const std::string& text, const std::string& name, const FileModelWish&);
// Samples of the file's step; none: it is written for one.
std::optional<std::int64_t> batch_of_file(const std::string& text, const std::string& name);

}  // namespace etrace::train
#pragma GCC visibility pop
