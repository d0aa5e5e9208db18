// What a model is made of: a table of its modules with shapes, parameters, states and bytes, and what
// learning rules keep for it.
//
//   std::cout << summary(model, example).to_string();
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "etrace/module.h"

#pragma GCC visibility push(default)
namespace etrace {

// A column of one's own: a number of bytes for each parameter; the module's rows add them up.
struct SummaryColumn {
  std::string title;
  std::function<std::int64_t(const StatePath& param)> bytes;
};

struct Summary {
  struct Row {
    std::string path;  // "rnn/Wz"; empty for the model itself
    std::string type;  // the class, "nn::Linear"; empty for a model file
    int depth = 0;     // below the model
    std::string
        output;  // "f32[2,8]": what it computes last; empty without an example, or if it computes nothing
    std::vector<std::string> states;  // its own: "weight.bias f32[8]", "h f32[2,8] hidden"
    std::int64_t params = 0;          // entries of its own parameters
    std::int64_t param_bytes = 0, state_bytes = 0;
    std::vector<std::int64_t> traces;  // bytes, one per entry of Summary::traces
    std::vector<std::int64_t> extra;   // one per column
  };
  // Rules that keep the same from step to step, whatever the length of the sequence: in the scope that they
  // run in, with their default options. Bytes are those of the operator's results, per number.
  struct Traces {
    std::vector<std::string> rules;  // "D_RTRL", "EProp" …
    std::int64_t shared_bytes = 0;   // of no parameter alone; in the total
  };
  std::vector<Row> rows;       // depth first
  std::vector<Traces> traces;  // none without an example
  std::vector<std::string> columns;
  Row total;

  std::string to_string() const;
  std::string to_json() const;
};

// With an example argument the step is traced and compiled, for the shapes of the outputs and for the traces;
// the model stays as it was. CompilationError.
Summary summary(Module&, const Array& example = {}, const std::vector<SummaryColumn>& = {});
Summary summary(const Model&);  // of a model file: no classes

}  // namespace etrace
#pragma GCC visibility pop
