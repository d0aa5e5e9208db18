// Optimisers: from gradients to new parameters.
//
//   optim::Adam optimizer(model, 1e-3, {}, {.clip_norm = 1.0});
//   optimizer.update(result.grads);
//
// or, inside a program that is being recorded, as a pure function of arrays:
//
//   const optim::Adam rule(optim::schedule::cosine(1e-3, 10000, 500));
//   Arrays state = rule.init(params);
//   const auto [new_params, new_state] = rule.apply(params, grads, state);
//
// Both are the same arithmetic. One update, in this order:
//
//   g ← gradient, 0 where a mask keeps a parameter at zero
//   g ← clip(g, −clip_value, clip_value);   g ← g·min(1, clip_norm/(|g| + 1e-6)), |g| over all leaves
//   g ← g + λ·θ                             weight decay of rules that add it to the gradient
//   θ ← θ − η·(direction(g) + λ·θ)          λ here: rules that keep it out of their averages (AdamW, Lion)
//   θ ← constraints(θ)
//
// Start with Optimizer. A rule of your own overrides slots() and direction(); see src/optim/adam.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etrace/array.h"
#include "etrace/module.h"
#include "etrace/param_values.h"
#include "etrace/program.h"

#pragma GCC visibility push(default)
namespace etrace::optim {

// Learning rates --------------------------------------------------------------------------------------------
// A number, or a function of the count of updates made so far: the first update asks for step 0.
class Schedule {
 public:
  using Formula = std::function<Array(const Array& step)>;  // floating scalar -> scalar of that type

  Schedule(double rate);  // NOLINT: a number is a schedule. ValueError if negative or not finite
  explicit Schedule(Formula formula);

  // A scalar of the step's type, f32 for whole numbers; records if the step is a tracer.
  Array operator()(const Array& step) const;
  double at(std::int64_t step) const;  // the same in f64

 private:
  std::optional<double> constant_;
  Formula formula_;
};

// Numbers are checked (ValueError): rates not negative, factors positive, counts of steps positive.
namespace schedule {
Schedule constant(double rate);
Schedule step_decay(double initial, double factor, std::int64_t every);  // initial·factor^⌊step/every⌋
Schedule exponential(double initial, double factor, std::int64_t every = 1);  // initial·factor^(step/every)
// peak·(step + 1)/warmup, then peak: the first update already moves.
Schedule linear_warmup(double peak, std::int64_t warmup);
// Linear warm-up, then half a cosine from peak at step `warmup` to `final` at step `total` and ever after.
Schedule cosine(double peak, std::int64_t total, std::int64_t warmup = 0, double final = 0.0);
// values[i] from step boundaries[i − 1] on; one value more than boundaries, which ascend.
Schedule piecewise(std::vector<double> values, std::vector<std::int64_t> boundaries);
}  // namespace schedule

// Constraints -----------------------------------------------------------------------------------------------
// What holds for a parameter after every update. `leaf` is a name as in to_string(ParamLeafId), or the
// beginning of names up to a '/' or '.': "rnn" means everything below rnn.
struct Constraint {
  enum class Kind : std::uint8_t { NonNegative, NonPositive, KeepSign, Mask };
  std::string leaf;
  Kind kind = Kind::NonNegative;
  Array values = {};  // KeepSign: the signs, undefined: those at init(); Mask: 0 or false where it stays zero
};
Constraint non_negative(std::string leaf);
Constraint non_positive(std::string leaf);
// Dale's law: an element that would change its sign becomes 0. Elements of sign 0 are free. Signs and masks
// broadcast to the leaf, so signs of shape [n, 1] give each row of a weight its own.
Constraint keep_sign(std::string leaf);
Constraint keep_sign(std::string leaf, Array signs);
Constraint fixed_mask(std::string leaf, Array mask);

// Optimisers ------------------------------------------------------------------------------------------------
// Some parameters treated differently: those that `leaf` covers, as in Constraint. What is absent is as for
// all; of several groups that cover a leaf the last one counts.
struct ParamGroup {
  std::string leaf;
  std::optional<Schedule> learning_rate = {};
  std::optional<double> weight_decay = {}, clip_norm = {}, clip_value = {};
  bool frozen = false;
};

struct CommonOptions {
  std::optional<double> clip_norm = {};     // of all gradients together
  std::optional<double> clip_value = {};    // of every element; comes before clip_norm
  std::optional<double> weight_decay = {};  // λ; absent: the rule's own (0.01 for AdamW, else 0)
  std::vector<std::string> frozen = {};     // leaves that never move, named as in Constraint; they have no
                                            // slots and do not count for clip_norm
  std::vector<Constraint> constraints = {};
  std::vector<ParamGroup> groups = {};
};

struct Updated {
  Arrays params, state;
};

class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  virtual std::string_view name() const = 0;  // as make() knows it
  const Schedule& schedule() const { return rate_; }
  const CommonOptions& options() const { return common_; }
  double weight_decay() const { return decay_; }

  // Pure form. `leaves` names the parameters, one each; left out: the leaves of the bound model, or, without
  // one, "0", "1", "2" …
  // State: the count of updates (i32, stays at its largest value), then the slots leaf by leaf, each of the
  // leaf's shape and type. Parameters of 16 bits have slots in f32, are updated in f32 and rounded once.
  Arrays init(ArraySpan params, std::span<const ParamLeafId> leaves = {}) const;
  // An undefined gradient is a zero gradient: averages decay and may still move the parameter. `hyper` are
  // the values of hyperparameter_names(), scalars; left out: the optimiser's own, the rate from its schedule.
  Updated apply(ArraySpan params, ArraySpan grads, ArraySpan state, std::span<const ParamLeafId> leaves = {},
                ArraySpan hyper = {}) const;
  // Learning rates, weight decays and clips, of all parameters and of each group: "lr", "weight_decay",
  // "lr:rnn" … They may change between updates; programs take them as arguments.
  std::vector<std::string> hyperparameter_names(std::span<const ParamLeafId> leaves) const;
  std::vector<double> hyperparameters(std::int64_t step) const;
  void hyperparameters(std::int64_t step, std::span<double> into) const;  // allocates only for formulas
  // "step", "rnn/W/weight.bias/m", "rnn/W/weight.bias/v" …: names of the state, in its order.
  std::vector<std::string> state_names(std::span<const ParamLeafId> leaves) const;

  // On a model. bind() takes its parameters, all of param_leaf_ids(model), and starts with a fresh state; it
  // keeps the parameters alive. What follows throws ValueError if nothing is bound.
  void bind(Module& model);
  bool bound() const { return state_ != nullptr; }
  const std::vector<ParamLeafId>& leaves() const { return leaves_; }
  // One update of the model's parameters, as a program on default_backend(). An undefined value is a zero
  // gradient; a leaf that `grads` does not name keeps its value and its slots. ValueError for a leaf that the
  // model does not have, and for an update that would not be finite: nothing is changed then.
  void update(const ParamValues& grads);
  std::int64_t step() const;     // updates so far
  double learning_rate() const;  // of the next update
  // From the next update on; of all parameters, or of the group that was made with this name.
  void set_learning_rate(Schedule rate);
  void set_learning_rate(std::string_view group, Schedule rate);
  // One update of the bound model as a program: (params…, gradients…, state…, hyperparameters…) -> (params…,
  // state…). Equal programs do the same.
  std::shared_ptr<const ClosedJaxpr> update_program() const;
  // The parameters of the bound model, one state each.
  std::span<const std::shared_ptr<State>> params() const { return params_; }

  // For learners, which go on with the state in buffers of their own: one entry per name of
  // state_names(leaves()).
  const std::shared_ptr<std::vector<VersionedArray>>& stored_state() const { return state_; }

  // For checkpoints. set_state takes any order; ValueError names everything that is missing, unknown or of
  // another type, and leaves the state as it was.
  std::vector<std::pair<std::string, Tensor>> state() const;
  void set_state(std::span<const std::pair<std::string, Tensor>> entries);

 protected:
  enum class Decay : std::uint8_t { InGradient, Decoupled };
  Optimizer(Schedule rate, CommonOptions common, Decay form = Decay::InGradient, double default_decay = 0.0);

  // What the rule remembers per element.
  struct Slot {
    std::string_view name;
    double initial = 0.0;
  };
  virtual std::vector<Slot> slots() const = 0;
  // One leaf: θ moves by −η·value. `count` is the number of this update, 1 for the first, as a scalar of the
  // gradient's type.
  struct Direction {
    Array value;
    Arrays slots;
  };
  virtual Direction direction(const Array& grad, ArraySpan slots, const Array& count) const = 0;

 private:
  struct LeafPlan {
    std::string name;
    bool frozen = false;
    std::size_t group = 0;  // 0: no group; else its number, from 1
    std::vector<const Constraint*> constraints;
    std::vector<Slot> slots;  // the rule's, then "sign" if the initial signs are kept
  };
  using Plans = std::vector<LeafPlan>;
  Plans plan(std::span<const ParamLeafId> leaves) const;
  Plans plan_for(std::size_t params, std::span<const ParamLeafId> leaves) const;
  Arrays init_planned(const Plans&, ArraySpan params) const;
  // What a group of parameters is updated with; undefined: not at all.
  struct Settings {
    Array rate, decay, clip_norm, clip_value;
  };
  std::vector<Settings> settings(ArraySpan hyper, const Array& step, Dtype dtype) const;
  Updated apply_planned(const Plans&, ArraySpan params, ArraySpan grads, ArraySpan state,
                        const std::vector<bool>& skipped, ArraySpan hyper) const;
  Arrays gradients(const Plans&, ArraySpan params, ArraySpan grads, const std::vector<bool>& skipped,
                   const std::vector<Settings>&) const;
  Array moved(const LeafPlan&, const Array& param, const Array& grad, const Settings&, const Array& count,
              std::span<Array> slots) const;
  struct Hyperparameter {
    std::string name;
    std::size_t group;
    enum Kind : std::uint8_t { Rate, WeightDecay, ClipNorm, ClipValue } kind;
  };
  std::vector<Hyperparameter> list_hyperparameters() const;
  const std::vector<Hyperparameter>& hyperparameter_list() const { return hyperparameters_; }
  double hyperparameter(const Hyperparameter&, std::int64_t step) const;
  void require_bound(std::string_view what) const;
  Arrays state_now() const;
  std::size_t leaf_position(const ParamLeafId&, std::size_t hint) const;

  Schedule rate_;
  CommonOptions common_;
  Decay decay_form_;
  double decay_;

  // Updates of the bound model as programs, and the session that they run in; made when first needed.
  class Runs;
  Program update_of(const std::vector<bool>& skipped) const;
  void check_gradients(ArraySpan grads, const std::vector<bool>& skipped) const;

  // The bound model: leaves and plans side by side; states hold one or more leaves each.
  std::vector<ParamLeafId> leaves_;
  Plans plans_;
  std::vector<std::shared_ptr<State>> params_;
  std::shared_ptr<std::vector<VersionedArray>> state_;  // null: not bound
  std::vector<Hyperparameter> hyperparameters_;
  mutable std::shared_ptr<const ClosedJaxpr> program_;  // made when first asked for
  std::unique_ptr<Runs> runs_;
};

// Rules -----------------------------------------------------------------------------------------------------
// Each has two constructors: for a model, and for the pure form alone. Formulas are in src/optim/.
struct SgdOptions {
  double momentum = 0.0;
  bool nesterov = false;  // needs momentum
};
class SGD final : public Optimizer {
 public:
  explicit SGD(Schedule rate, const SgdOptions& = {}, CommonOptions = {});
  SGD(Module& model, Schedule rate, const SgdOptions& own = {}, CommonOptions common = {})
      : SGD(std::move(rate), own, std::move(common)) {
    bind(model);
  }
  std::string_view name() const override { return "sgd"; }

 protected:
  std::vector<Slot> slots() const override;
  Direction direction(const Array& grad, ArraySpan slots, const Array& count) const override;

 private:
  SgdOptions own_;
};

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;  // added to the root
  bool epsilon_first =
      false;  // before the root's bias is corrected: m·√c₂/c₁ / (√v + ε), as TensorFlow has it
};
class Adam final : public Optimizer {
 public:
  explicit Adam(Schedule rate, const AdamOptions& = {}, CommonOptions = {});
  Adam(Module& model, Schedule rate, const AdamOptions& own = {}, CommonOptions common = {})
      : Adam(std::move(rate), own, std::move(common)) {
    bind(model);
  }
  std::string_view name() const override { return "adam"; }

 protected:
  std::vector<Slot> slots() const override;
  Direction direction(const Array& grad, ArraySpan slots, const Array& count) const override;

 private:
  AdamOptions own_;
};

// Adam with the weight decay outside of its averages.
class AdamW final : public Optimizer {
 public:
  explicit AdamW(Schedule rate, const AdamOptions& = {}, CommonOptions = {});
  AdamW(Module& model, Schedule rate, const AdamOptions& own = {}, CommonOptions common = {})
      : AdamW(std::move(rate), own, std::move(common)) {
    bind(model);
  }
  std::string_view name() const override { return "adamw"; }

 protected:
  std::vector<Slot> slots() const override;
  Direction direction(const Array& grad, ArraySpan slots, const Array& count) const override;

 private:
  AdamOptions own_;
};

struct RmspropOptions {
  double decay = 0.99;
  double epsilon = 1e-8;  // added to the root
  double momentum = 0.0;
};
class RMSprop final : public Optimizer {
 public:
  explicit RMSprop(Schedule rate, const RmspropOptions& = {}, CommonOptions = {});
  RMSprop(Module& model, Schedule rate, const RmspropOptions& own = {}, CommonOptions common = {})
      : RMSprop(std::move(rate), own, std::move(common)) {
    bind(model);
  }
  std::string_view name() const override { return "rmsprop"; }

 protected:
  std::vector<Slot> slots() const override;
  Direction direction(const Array& grad, ArraySpan slots, const Array& count) const override;

 private:
  RmspropOptions own_;
};

struct AdagradOptions {
  double initial_sum = 0.0;
  double epsilon = 1e-10;  // added to the root
};
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(Schedule rate, const AdagradOptions& = {}, CommonOptions = {});
  Adagrad(Module& model, Schedule rate, const AdagradOptions& own = {}, CommonOptions common = {})
      : Adagrad(std::move(rate), own, std::move(common)) {
    bind(model);
  }
  std::string_view name() const override { return "adagrad"; }

 protected:
  std::vector<Slot> slots() const override;
  Direction direction(const Array& grad, ArraySpan slots, const Array& count) const override;

 private:
  AdagradOptions own_;
};

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99;
};
class Lion final : public Optimizer {
 public:
  explicit Lion(Schedule rate, const LionOptions& = {}, CommonOptions = {});
  Lion(Module& model, Schedule rate, const LionOptions& own = {}, CommonOptions common = {})
      : Lion(std::move(rate), own, std::move(common)) {
    bind(model);
  }
  std::string_view name() const override { return "lion"; }

 protected:
  std::vector<Slot> slots() const override;
  Direction direction(const Array& grad, ArraySpan slots, const Array& count) const override;

 private:
  LionOptions own_;
};

// By name, for command lines --------------------------------------------------------------------------------
struct MakeOptions {
  std::optional<Schedule> learning_rate = {};  // absent: the entry's
  // The rule's own options: {"beta1", 0.95}, {"nesterov", 1} …
  std::vector<std::pair<std::string, double>> numbers = {};
  CommonOptions common = {};
};
struct Entry {
  std::string_view name, doc;
  double learning_rate;  // where none is given
  std::unique_ptr<Optimizer> (*make)(Schedule, const MakeOptions&);
};
std::span<const Entry> all();  // names ascending
// Not bound yet. ValueError lists the optimisers, or the numbers that the rule has.
std::unique_ptr<Optimizer> make(std::string_view name, const MakeOptions& = {});

}  // namespace etrace::optim
#pragma GCC visibility pop
