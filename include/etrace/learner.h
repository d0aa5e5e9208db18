// The learner: a model that learns online.
//
//   auto learner = compile(model, D_RTRL{}, zeros({1, 3}), {.batch_size = 1});
//   auto result = learner.etrace_grad(xs, ys, loss::mse);   // memory does not grow with the sequence
//   optimizer.update(result.grads);
//
// A learner continues: every call starts from the states and traces that the one before has left. Sequences
// run in windows, and a window is the unit of change: one that would leave anything that is not finite
// changes nothing, and what the windows before it did stands. A call that throws for another reason (wrong
// types, data that is not finite) changes nothing at all. One that is ended by the program around the library
// (etrace/host.h) stands where its last whole window left it.
//
// Parameters and states are the model's: whoever reads them there, or in the optimiser, gets the newest
// value, and whoever sets them there is seen by the next call. Start with compile().
#pragma once

#include <functional>
#include <memory>

#include "etrace/loss.h"
#include "etrace/optim.h"
#include "etrace/plan.h"
#include "etrace/save.h"
#include "etrace/trace_passes.h"

#pragma GCC visibility push(default)
namespace etrace {

// What a learner does with a step, window or update that would put numbers into parameters, optimiser, states
// or traces that are not finite, or whose data is not. Nothing is changed by it either way.
enum class NotFinite : std::uint8_t {
  Error,  // ValueError says where
  Skip,   // left out, and counted: Learner::skipped(); losses and results of data that is not finite are NaN
};

struct LearnerOptions {
  std::optional<std::int64_t> batch_size = {};  // given: all states start anew with this batch
  // Every random key (RandomState, KeyState) starts from this seed and its path.
  std::optional<std::uint64_t> seed = {};
  VjpMethod vjp_method = VjpMethod::SingleStep;
  bool vmap = false;         // the model is written for one sample; states and arguments get a lane each
  int verbose = 0;           // 1 prints the compilation report, 2 with every record
  std::string backend = {};  // by name, etrace/backend.h; empty: default_backend()
  Compat compat = Compat::None;
  ControlFlowPolicy control_flow = {};
  bool strict = false;  // a warning of the compiler is an error
  // Single-step learners run so many steps as one window: the trace is passed once per window. The gradient
  // is the same sum in another order, so that its last bits depend on this number (1e-7 relative in float32).
  // None: chosen from the sizes of traces and states; Learner::execution() says what and why.
  std::optional<std::int64_t> execution_window = {};
  std::optional<std::int64_t> memory_limit = {};  // bytes for traces and windows; more is refused
  // How the passes over traces run, where it is not to be chosen: their form, and threads. trace_passes() of
  // a program in plan() says what was chosen and why.
  std::vector<TracePassWish> trace_passes = {};
  NotFinite not_finite = NotFinite::Error;
};

// The loss of one step, from the model's result and the target: loss::mse … Of a model with several results
// it takes all of them: [](ArraySpan results, const Array& target) { … }.
class Loss {
 public:
  using OfOne = Array(const Array& result, const Array& target);
  using OfAll = Array(ArraySpan results, const Array& target);
  Loss() = default;
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Loss> &&
           (std::is_invocable_r_v<Array, F&, const Array&, const Array&> ||
            std::is_invocable_r_v<Array, F&, ArraySpan, const Array&>))
      Loss(F f) {  // NOLINT: any such function
    if constexpr (std::is_invocable_r_v<Array, F&, const Array&, const Array&>)
      of_one_ = std::move(f);
    else
      of_all_ = std::move(f);
  }

  // ValueError for a loss of one result that gets several.
  Array operator()(ArraySpan results, const Array& target) const;
  explicit operator bool() const { return of_one_ || of_all_; }
  OfOne* plain_function() const;  // by which it is known again; null: it is no plain function of one result

 private:
  std::function<OfOne> of_one_;
  std::function<OfAll> of_all_;
};

// The step function that runs the model on slice 0 and gives the loss of its result against slice 1.
// `windows`: it sees windows of steps; `per_sample`: one loss per sample, for masks that weigh each.
StepFunction step_function(const Loss&, bool windows = false, bool per_sample = false);

// The third factor of one group of hidden states.
struct GroupModulator {
  std::string group;  // by one of its states or the module that holds it: "l1/v", "l1"
  StepInput value;    // MultiStepData: one per step
  // What the axes of the value count. States: those of the group, [*varshape] or [*varshape, S], each as
  // long as it is or 1; a number counts for all. Samples: [B]. Neurons: [*varshape] without the batch.
  enum Over : std::uint8_t { States, Samples, Neurons } over = States;
};

struct SequenceOptions {
  // Weights of the losses, not negative: [T], or [T, B] one per sample (a step function then gives one loss
  // per sample); undefined: ones.
  Array mask = {};
  bool freeze = false;  // steps of weight zero are padding: they change neither states nor traces
  // Multi-step learners: steps of a window; the step function then sees windows. None or 1: step by step.
  std::optional<std::int64_t> chunk_size = {};
  Reduction reduction = Reduction::Mean;  // over the weights of the mask
  // The third factor, for rules that take one: the same at all steps, or MultiStepData with one per step. A
  // number, or an array that fits the states of every group, as in GroupModulator. Undefined: the one that
  // stands.
  StepInput modulator = {};
  std::vector<GroupModulator> modulators = {};  // or one per group, of all groups
};
struct SequenceGradient {
  ParamValues grads;
  Array losses;  // [T], as the step function gives them
  double loss;   // weighted and reduced
  Arrays aux;    // stacked over the calls of the step function
};
struct EvolveOptions {
  Array mask = {};  // with freeze: padding
  bool freeze = false;
};
enum class UpdateEvery : std::uint8_t { Step, Window, Sequence };
struct TrainOptions : SequenceOptions {
  UpdateEvery update = UpdateEvery::Sequence;
  std::int64_t window = 0;  // steps between updates of UpdateEvery::Window; 0: the chunk or execution window
};
struct SequenceTraining {
  Array losses;  // [T]
  double loss;
  Arrays aux;
  std::int64_t updates;  // of the parameters
};

struct SyntheticGradientOptions;  // etrace/synthetic_gradient.h

class Learner {
 public:
  // From a graph of a model file: parameters and states are the learner's own.
  Learner(ETraceGraph graph, const LearningRule& rule, LearnerOptions options = {});
  ~Learner();
  Learner(Learner&&) noexcept;
  Learner& operator=(Learner&&) noexcept;

  // One step, or several with MultiStepData; states and traces move on, there is no gradient.
  Arrays update(std::span<const StepInput> args);
  Arrays update(std::initializer_list<StepInput> args) {
    return update(std::span<const StepInput>(args.begin(), args.size()));
  }
  Array operator()(const StepInput& x);  // a model with one argument and one result

  // Real time: one step on buffers that are bound once. After the first call of a kind, or after prepare(), a
  // step allocates nothing. With a target there are loss and gradient or, if bind_step() was given an
  // optimiser, the update. What comes back is overwritten by the next step. ValueError for arguments of the
  // wrong type or with numbers that are not finite. To feed a buffer of one's own without an allocation, make
  // an Array over it once (Tensor::over) and fill it anew before each step.
  struct StepResult {
    double loss = 0.0;  // NaN without a target
    Arrays results;     // of the model
    ParamValues grads;  // with a target and no optimiser
  };
  void bind_step(const Loss&, optim::Optimizer* = nullptr);  // the optimiser must outlive the last step
  // Makes the programs of step(x) and, with a loss bound, of step(x, target), and runs nothing.
  void prepare();
  void prepare(const Aval& target);
  const StepResult& step(const Array& x) { return step(ArraySpan(&x, 1)); }
  const StepResult& step(const Array& x, const Array& target) { return step(ArraySpan(&x, 1), target); }
  const StepResult& step(ArraySpan args);
  const StepResult& step(ArraySpan args, const Array& target);
  void sync();  // model and optimiser get their values now, not when they are asked for them

  // Steps, windows and updates that would not have been finite and changed nothing; and those of which single
  // elements, or a trace that starts anew, overflowed from finite numbers.
  std::int64_t skipped() const;

  // Sequences: one array per input of the step function, time first.
  SequenceGradient etrace_grad(ArraySpan sequences, const StepFunction&, const SequenceOptions& = {});
  SequenceGradient etrace_grad(const Array& inputs, const Array& targets, const Loss&,
                               const SequenceOptions& = {});
  // Runs through without gradients; the model's results, time first.
  Arrays etrace_evolve(ArraySpan sequences, const EvolveOptions& = {});
  // With updates of the parameters on the way, all in one program. The optimiser must be bound to the model.
  SequenceTraining etrace_train(ArraySpan sequences, const StepFunction&, optim::Optimizer&,
                                const TrainOptions& = {});
  SequenceTraining etrace_train(const Array& inputs, const Array& targets, const Loss&, optim::Optimizer&,
                                const TrainOptions& = {});
  // Gradient for learning signals ∂L/∂h that come from elsewhere: one array [*varshape, S] per group. It is
  // that of the traces. A parameter without a trace (a readout) is not among its leaves, since the signals do
  // not say what the loss is: optimisers leave it as it is, GradientSum takes it from a gradient of that
  // loss.
  ParamValues solve(ArraySpan signals);

  // The third factor where a call gives none, for rules that take one (ThreeFactor).
  void set_modulator(const Array&);
  void set_modulator(std::span<const GroupModulator>);  // one per group; ValueError lists the groups

  // Parameters of the rule's own (fixed feedback, a synthesizer), which resets leave as they are.
  std::vector<std::string> rule_param_names() const;
  Array rule_param(std::string_view name) const;  // "group0/feedback"; ValueError lists them
  void set_rule_param(std::string_view name, const Array& value);

  // Traces and counters to zero; hidden states stay. reset_model_state() is the other half.
  void reset_state();
  void reset_model_state();

  std::vector<EligibilityTrace> get_etrace_of(const StatePath& param) const;  // ValueError if it has none
  std::vector<EligibilityTrace> get_etrace_of(std::string_view param) const;
  std::vector<EligibilityTrace> etraces() const;  // all

  const ETraceGraph& graph() const;
  const LearningRule& rule() const;
  std::string describe() const;      // the rule with its options, and the method: "D_RTRL, single-step"
  std::int64_t trace_bytes() const;  // of all that the rule carries
  const LearnerOptions& options() const;
  const ExecutionChoice& execution() const;
  CompilationReport report() const;
  std::int64_t running_index() const;  // calls so far: steps, or windows of a multi-step learner
  std::int64_t age() const;            // steps that the traces have seen

  ParamValues params() const;
  void set_params(const ParamValues&);
  Array state(std::string_view path) const;  // "rnn/h"; ValueError lists the states
  void set_state(std::string_view path, const Array& value);
  std::vector<std::string> state_names() const;

  // The programs that run for one loss, lean. Windows have execution().window steps.
  LearnerPlan plan(const StepFunction&, std::span<const Aval> slices,
                   const optim::Optimizer* = nullptr) const;
  enum class PlanForm : std::uint8_t { AsCompiled, AsRecorded };  // with or without simplification
  // The programs that etrace_train compiles for sequences of so many steps, each once; slices are the types
  // of one step. Of mask and modulator only the types count. Programs of one name and several window lengths
  // are told apart: train_window, train_window_of_4.
  LearnerPlan train_plan(std::span<const Aval> slices, std::int64_t length, const StepFunction&,
                         const optim::Optimizer&, const TrainOptions& = {},
                         PlanForm = PlanForm::AsCompiled) const;
  // Those that it has compiled for sequences until now, the newest first.
  std::vector<Program> compiled() const;

  // Kept in a checkpoint for the caller: data position, epoch …
  using Notes = std::vector<std::pair<std::string, std::string>>;
  // Parameters, states, traces, counters, and the optimiser's state, with the fingerprint of the graph.
  TensorFile checkpoint(const optim::Optimizer* = nullptr, const Notes& = {}) const;
  // Goes on from a checkpoint, and returns its notes. Everything is checked first: ValueError names the
  // difference and changes nothing.
  Notes restore(const TensorFile&, optim::Optimizer* = nullptr);
  // A checkpoint as a file, which takes the place of an older one when it is complete.
  void save(const std::string& path, const optim::Optimizer* = nullptr, const Notes& = {}) const;
  Notes load(const std::string& path, optim::Optimizer* = nullptr);  // restore() from a file
  std::string fingerprint() const;                                   // of program, rule and traces

  struct Impl;  // private to learn/

 private:
  friend Learner compile(Module&, const LearningRule&, ArraySpan, const LearnerOptions&);
  friend std::vector<double> train_synthetic_gradient(Learner&, ArraySpan, const StepFunction&,
                                                      const SyntheticGradientOptions&);
  explicit Learner(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

// Traces the model on example arguments, compiles its graph, and makes the learner. Parameters and (without
// vmap) states are the model's, and stay alive with the learner. CompilationError if no parameter is learned
// online.
Learner compile(Module& model, const LearningRule& rule, ArraySpan example, const LearnerOptions& = {});
inline Learner compile(Module& model, const LearningRule& rule, const Array& example,
                       const LearnerOptions& options = {}) {
  return compile(model, rule, ArraySpan(&example, 1), options);
}
// The rule by name.
Learner compile(Module& model, std::string_view rule, ArraySpan example, const LearnerOptions& = {},
                const RuleOptions& = {});

// Sums of gradients, for updates after several calls.
class GradientSum {
 public:
  void add(const ParamValues& grads, double weight = 1.0);  // ValueError: neither names all of the other
  const ParamValues& value() const { return value_; }
  ParamValues mean() const;  // by the sum of the weights
  void reset() { *this = {}; }

 private:
  ParamValues value_;
  double weight_ = 0.0;
};

// g ← decay·g + grad: an exponentially fading sum of gradients.
class GradExpon {
 public:
  explicit GradExpon(double decay);                     // in (0, 1); ValueError otherwise
  static GradExpon from_tau(double tau, double dt);     // decay exp(−dt/τ)
  const ParamValues& update(const ParamValues& grads);  // ValueError if the leaves change
  const ParamValues& value() const { return value_; }
  double decay() const { return decay_; }
  void reset() { value_ = {}; }

 private:
  double decay_;
  ParamValues value_;
};

}  // namespace etrace
#pragma GCC visibility pop
