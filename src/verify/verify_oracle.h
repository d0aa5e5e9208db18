// What verify() holds a rule against. Private to verify/.
#pragma once

#include "etrace/verify.h"
#include "session/program_run.h"

namespace etrace {

inline constexpr double kAlive = 1e-8;  // norms at or below count as zero

// The loss of a whole sequence as a function of the parameters. It runs the program of the model as it came
// in, not the compiler's, and knows nothing of groups, relations and traces.
class SequenceOracle {
 public:
  // Simplified as the programs of learners are, or equation by equation, before any pass.
  enum class Form : std::uint8_t { Lean, AsWritten };
  SequenceOracle(const Model& model, const StepProgram& step, ArraySpan sequences,
                 Form form = Form::Lean);  // all must outlive it

  struct Gradient {
    double loss;
    Tensors values;  // per parameter leaf, as a learner orders them; undefined if it is not floating
  };
  Gradient bptt() const;  // of the sum over all steps
  // Of the loss of the last step, split by the step at which the parameter acted: [T, …] per leaf.
  Tensors last_step_by_origin() const;
  // Deviation of the gradient from central differences, per leaf, on at most 64 entries each. The narrowest
  // type on the way of each leaf sets the step.
  std::vector<double> finite_differences(const Gradient&, const std::vector<Dtype>& narrowest) const;
  // The same along one direction of all entries, by two steps: none where the function has a kink or a jump
  // there, or differences are lost in rounding. `leaf` must be floating.
  std::optional<double> slope_deviation(ProgramRun& forward, const Gradient&, std::size_t leaf,
                                        Dtype narrowest) const;
  ProgramRun forward() const;
  // The gradient by forward mode: the influence of every parameter element on every state is carried along.
  Tensors full_rtrl(std::int64_t max_influence) const;

 private:
  // A program on the model's parameters and first states, and on the sequences.
  ProgramRun bound(Program) const;
  void start(ProgramRun&) const;  // the first states again
  Tensors gradients(ProgramRun&) const;
  bool is_floating(std::size_t leaf) const {
    return etrace::is_floating(plan_.params()[leaf].port.aval.dtype);
  }
  std::int64_t steps() const { return sequences_.front().shape()[0]; }

  ModelPlan plan_;
  const StepProgram& step_;
  ArraySpan sequences_;
  Avals slices_;
  Form form_;
};

double norm(std::span<const double>);
Agreement agreement(std::span<const double> gradient, std::span<const double> reference);

}  // namespace etrace
