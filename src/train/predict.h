// What the best parameters of a run say of new data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace::train {

struct Predictions {
  std::vector<std::string> classes;
  struct Row {
    std::size_t answer = 0;    // the class
    double probability = 0.0;  // that the model gives it
    std::string label;         // what the file says; of another data set it may be none of the classes
  };
  std::vector<Row> rows;  // one per sample, in the order of the file
  std::size_t right = 0;  // answers that are as the file says
};

// `run`: the folder of a run on data; `file`: what a reader knows, read as the run's data was. ValueError:
// the run is not on data, the file has another number of channels.
Predictions predict(const std::string& run, const std::string& file, const std::string& backend);

}  // namespace etrace::train
#pragma GCC visibility pop
