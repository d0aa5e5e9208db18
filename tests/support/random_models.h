// Random models for judges of gradients. A model is first a ModelDescription: a plain value that can be drawn
// from a seed, printed, and made smaller piece by piece (support/shrink_model.h); to_model() traces the step
// that it describes.
//
//   sizes b=2 i=3 n=4, 7 steps, random 5
//   arg x [b,i]
//   hidden h0 [b,n] HiddenState
//   param w0 [i,n] ParamState
//   v0 = matmul(x, w0)
//   v1 = tanh(v0)
//   h0 <- v1
//   result v1
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "etrace/array.h"
#include "etrace/graph.h"
#include "etrace/model_io.h"

namespace etrace::testing {

struct Line;
// The body of a conditional, loop or call. It may use the names around it.
struct Block {
  std::vector<std::string> args, results;
  std::vector<Line> lines;
};
// out = op(in; numbers; dims) with bodies. What an operation does is a row in random_model_ops.cpp.
struct Line {
  std::vector<std::string> out;
  std::string op;
  std::vector<std::string> in;
  std::vector<double> numbers = {};
  std::vector<std::string> dims = {};
  std::vector<Block> blocks = {};
};

// An input of the step: argument, state or leaf of a parameter.
struct ModelPort {
  Role role = Role::Arg;
  std::string name;               // "layers/0/h"; a leaf of a dictionary is "layers/0/p:bias"
  std::vector<std::string> dims;  // of the whole array, the batch (size "b") included
  std::string type;               // class of a state; "index" and "key" are integer ones
};

struct ModelDescription {
  std::uint64_t seed = 0;
  std::int64_t steps = 7;
  std::vector<std::pair<std::string, std::int64_t>> sizes;  // "b" counts samples; without it there is one
  std::vector<ModelPort> ports;                             // in the order of the program's inputs
  std::vector<Line> lines;
  // New values of states, in the order of the program's outputs. A state that is not here is passed through.
  std::vector<std::pair<std::string, std::string>> next;
  std::string result;
  bool result_first = true;    // among the outputs
  bool params_out = true;      // parameters are outputs, too
  ControlFlowPolicy policy{};  // how the compiler treats its control flow

  bool batched() const;
  std::int64_t size(const std::string& dim) const;  // "n", "3", "n+m"; ValueError for an unknown one
  const ModelPort* port(const std::string& name) const;
};

std::string to_string(const ModelDescription&);

// The traced step with initial values from the seed. Errors of operations (ValueError …) for a description
// that fits nothing.
Model to_model(const ModelDescription&);
// Other values at the start, from another seed.
void draw_initial(Model&, std::uint64_t seed);

// Does reverse mode take the derivative of its values, wherever there is one? Not of spikes.
bool smooth(const ModelDescription&);

// What is used: lines and ports without a reader go, in bodies too.
void prune(ModelDescription&);

// From a seed. Every description can be traced.
ModelDescription draw_model(std::uint64_t seed);

// Draws for whoever makes random things: the same on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x632BE59BD9B4E019ULL) {}
  std::uint64_t next();
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T& of(const std::vector<T>& v) {
    return v[below(v.size())];
  }
  // An index by weight.
  std::size_t weighted(const std::vector<double>& weights);

 private:
  std::uint64_t state_;
};

// What lines do (random_model_ops.cpp) ----------------------------------------------------------------------
class StepScope {
 public:
  StepScope(const ModelDescription& m, std::vector<std::pair<std::string, Array>> values)
      : model_(m), values_(std::move(values)) {}
  const ModelDescription& model() const { return model_; }
  Array at(const std::string& name) const;  // ValueError if there is none
  Arrays at(const std::vector<std::string>& names) const;
  void run(const std::vector<Line>&);
  Arrays body(const Block&, ArraySpan args) const;
  Shape shape(const std::vector<std::string>& dims) const;

 private:
  const ModelDescription& model_;
  std::vector<std::pair<std::string, Array>> values_;
};
struct StepOp {
  std::string_view name;
  Arrays (*eval)(const Line&, ArraySpan in, const StepScope&);
  bool smooth = true;
};
const StepOp& step_op(std::string_view name);  // ValueError if there is none

}  // namespace etrace::testing
