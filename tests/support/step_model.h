// A traced step for tests, written as a function of named inputs:
//   step_model({arg("x", {3}), hidden("h", {4}), param("w", {7, 4})},
//              [](In& in) { in.set("h", tanh(matmul(concatenate(Arrays{in["x"], in["h"]}), in["w"]))); return
//              in["h"]; });
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "etrace/array.h"
#include "etrace/model_io.h"

namespace etrace::testing {

struct StepInput {
  Role role;
  StatePath path;
  Shape shape;
  std::string type;
  std::int64_t leaf = 0;
  StatePath leaf_key;
  Dtype dtype = Dtype::F64;
};
StepInput arg(const std::string& name, const Shape& shape, Dtype dtype = Dtype::F64);
StepInput hidden(const std::string& path, const Shape& shape, const std::string& type = "HiddenState");
StepInput param(const std::string& path, const Shape& shape);
// A parameter with named leaves; give one input per leaf, in alphabetical order.
StepInput leaf(const std::string& path, const std::string& key, std::int64_t index, const Shape& shape);

// "layers/0/h" -> {"layers", 0, "h"}
StatePath path_of(const std::string& text);

class In {
 public:
  Array operator[](const std::string& name) const;  // by path, or path:leaf for named leaves
  void set(const std::string& name, const Array& value);

 private:
  friend Model step_model(std::vector<StepInput>, const std::function<Array(In&)>&, std::uint64_t);
  std::vector<std::string> names_;
  Arrays values_;
};

// Initial values are drawn from the seed; every state that the function does not set passes through.
Model step_model(std::vector<StepInput> inputs, const std::function<Array(In&)>& step,
                 std::uint64_t seed = 1);

}  // namespace etrace::testing
