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
    std::string label;  // what the file says (empty: nothing); of other data it may be none of the classes
    std::string name;   // of the sample: its file or series; empty: it has none
  };
  std::vector<Row> rows;  // one per sample, in the order of the file
  std::size_t right = 0;  // answers that are as the file says
};

// `labelled`: the file says classes, as the run's data did; false: it says none, or what it says is left out.
// `run`: the folder of a run on data; `file`: what a reader knows, read as the run's data was. ValueError:
// the run is not on data, the file has another number of channels.
Predictions predict(const std::string& run, const std::string& file, const std::string& backend,
                    bool labelled = true);

}  // namespace etrace::train
#pragma GCC visibility pop
