// What a model is made of: a table of its modules with shapes, parameters, states and bytes.
//
//   std::cout << summary(model, example).to_string();
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "etrace/module.h"

#pragma GCC visibility push(default)
namespace etrace {

// A column of one's own: a number of bytes (trace memory of a rule …) for each parameter; the module's rows
// add them up.
struct SummaryColumn {
  std::string title;
  std::function<std::int64_t(const StatePath& param)> bytes;
};

struct Summary {
  struct Row {
    std::string path;  // "rnn/Wz"; empty for the model itself
    std::string type;  // the class, "nn::Linear"
    int depth = 0;     // below the model
    std::string
        output;  // "f32[2,8]": what it computes last; empty without an example, or if it computes nothing
    std::vector<std::string> states;  // its own: "weight.bias f32[8]", "h f32[2,8] hidden"
    std::int64_t params = 0;          // entries of its own parameters
    std::int64_t param_bytes = 0, state_bytes = 0;
    std::vector<std::int64_t> extra;  // one per column
  };
  std::vector<Row> rows;  // depth first
  std::vector<std::string> columns;
  Row total;

  std::string to_string() const;
};

// With an example argument the step is traced, for the shapes of the outputs; the model stays as it was.
Summary summary(Module&, const Array& example = {}, const std::vector<SummaryColumn>& = {});

}  // namespace etrace
#pragma GCC visibility pop
