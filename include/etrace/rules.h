// The learning rules. Each is one file in src/learn/rules/; by name they come from make_rule()
// (etrace/learning_rule.h), and `etrace rules` lists them with their options. All of them are points of one
// space (etrace/config.h), whose other points are rules too: ConfiguredRule. docs/rules.md helps to choose.
#pragma once

#include "etrace/config.h"
#include "etrace/learning_rule.h"
#include "etrace/synthesizer.h"

#pragma GCC visibility push(default)
namespace etrace {

struct ReadoutFilter;  // private to learn/

// Random signs of one step and group, of this shape and type; key u32[2], step i32 (it counts from 0).
using ProjectionDraw = std::function<Array(const Array& key, const Array& step, std::size_t group,
                                           const Shape& shape, Dtype dtype)>;
struct RandomProjectionOptions {
  std::uint64_t projection_key = 42;
  double projection_eps = 1e-12;  // positive, also in float32
  ProjectionDraw draw = {};       // empty: fair signs
};

// Bytes that composite traces may take unless somebody says otherwise.
constexpr std::int64_t kCompositeMaxBytes = std::int64_t{1} << 30;

// What coordinates leave open. Each belongs to some values of the axes; others do not read it.
struct RuleSettings {
  std::optional<Dtype> trace_dtype = {};  // per_param: f16 or bf16 halve the traffic; sums stay in full
  std::int64_t snap_max_jacobian_elements = std::int64_t{1} << 24;  // sparse_n
  std::optional<std::uint64_t> random_feedback_key = {};            // random_feedback; it must be given
  std::vector<std::string> unfiltered = {};  // kappa: paths of hidden states whose signals meet e, not ē
  // Without a kappa: that of a leaky readout, where the model has one (learn/rules/readout_filter.h). With
  // one: leaky readouts are not filtered, since their own traces remember already.
  bool kappa_of_readout = false, readouts_unfiltered = false;
  Array modulator = {};                                      // modulatory: stands where a call gives none
  std::shared_ptr<const Synthesizer> synthesizer = nullptr;  // bootstrapped; null: an affine one
  RandomProjectionOptions projection = {};                   // random_projection
  // per_param in scopes diagonal and coupled: weights that reach hidden states only through other trainable
  // operators (a GRU's reset gate, an embedding before a cell) have traces, too: a number per state and slot.
  // Refused if these take more bytes.
  bool composite = false;
  std::int64_t composite_max_bytes = kCompositeMaxBytes;
};

// The rule at a coordinate.
class ConfiguredRule : public LearningRule {
 public:
  explicit ConfiguredRule(const ETraceConfig& config, const RuleSettings& settings = {})
      : ConfiguredRule("ETraceConfig", config, settings) {}
  // Under a name of its own. ValueError if the coordinate needs a setting that is not there.
  ConfiguredRule(std::string name, const ETraceConfig&, RuleSettings = {});

  std::string name() const override { return name_; }
  std::string describe() const override;
  std::string describe_on(const ETraceGraph&) const override;
  std::shared_ptr<const LearningRule> clone() const override {
    return std::make_shared<ConfiguredRule>(*this);
  }
  std::shared_ptr<const LearningRule> for_method(VjpMethod) const override;
  const ETraceConfig* config() const override { return &config_; }
  const RuleSettings& settings() const { return settings_; }
  void configure(CompileOptions&) const override;
  void require(VjpMethod) const override;
  bool takes_modulator() const override;
  Array standing_modulator() const override { return settings_.modulator; }
  Theory theory(bool carried) const override;
  std::unique_ptr<const BoundRule> bind(const ETraceGraph&) const override;

 private:
  std::unique_ptr<const BoundRule> engine(const ETraceGraph&) const;
  ReadoutFilter filter_on(const ETraceGraph&) const;
  std::string described(const std::vector<std::string>& unfiltered, const std::string& filter) const;
  std::string name_;
  ETraceConfig config_;
  RuleSettings settings_;
  bool in_windows_ = false;  // made by for_method(MultiStep)
};

// One trace per parameter -----------------------------------------------------------------------------------
struct ParamDimOptions {
  std::optional<Dtype> trace_dtype = {};
  bool composite = false;  // weights behind other weights have traces, too (RuleSettings)
  std::int64_t composite_max_bytes = kCompositeMaxBytes;
};
// Jacobians without recurrent products.
class D_RTRL : public ConfiguredRule {
 public:
  explicit D_RTRL(const ParamDimOptions& options = {});
};
using ParamDimVjpAlgorithm = D_RTRL;

// The same in scope `coupled`: the Jacobian's own blocks, recurrent products included.
class OSTLRecurrent : public ConfiguredRule {
 public:
  explicit OSTLRecurrent(const ParamDimOptions& options = {});
};

// D-RTRL with the influence on all positions that are reached within n − 1 steps; n = 1 is OSTLRecurrent.
// From the diameter of the recurrence plus one on it is RTRL.
struct SnApOptions {
  std::int64_t n = 2;
  std::int64_t max_jacobian_elements = std::int64_t{1} << 24;  // positions·(neighbours·states)²
  std::optional<Dtype> trace_dtype = {};
};
class SnAp : public ConfiguredRule {
 public:
  explicit SnAp(const SnApOptions& options = {});
};

// e-prop: the trace may be filtered, ē ← κ·ē + e, and the signal may come back through fixed random weights.
// The filter is that of a leaky readout r ← λ·r + W·z, so κ is λ = e^(−dt/τ) of the model's readout, and what
// is said to r itself meets e. What is said to a state by something else (a regulariser of the firing rate,
// by a state that counts spikes) can meet the trace itself, too: name the state in `unfiltered`.
enum class Feedback : std::uint8_t { Symmetric, Random };
struct EPropOptions {
  Feedback feedback = Feedback::Symmetric;
  // None: that of the model's leaky readout; no filter where there is none (describe_on says so).
  std::optional<double> kappa_filter_decay = {};
  std::optional<std::uint64_t> random_feedback_key = {};  // Feedback::Random needs one
  std::optional<Dtype> trace_dtype = {};
  std::vector<std::string> unfiltered = {};  // paths of hidden states whose signals meet e, not ē
  bool composite = false;                    // weights behind other weights have traces, too (RuleSettings)
  std::int64_t composite_max_bytes = kCompositeMaxBytes;
};
class EProp : public ConfiguredRule {
 public:
  explicit EProp(const EPropOptions& options = {});
};

// A third factor from outside (reward, surprise) in place of ∂L/∂h: SequenceOptions::modulator of a call, or
// Learner::set_modulator. Single steps only.
struct ThreeFactorOptions {
  Array modulator = {};  // stands until another is set
  std::optional<Dtype> trace_dtype = {};
  bool composite = false;  // weights behind other weights have traces, too (RuleSettings)
  std::int64_t composite_max_bytes = kCompositeMaxBytes;
};
class ThreeFactor : public ConfiguredRule {
 public:
  explicit ThreeFactor(const ThreeFactorOptions& options = {});
};

// D-RTRL whose windows also give parameters without a trace an estimate of what later windows will say to
// them (etrace/synthetic_gradient.h fits it). Windows only.
struct DNIOptions {
  std::shared_ptr<const Synthesizer> synthesizer = nullptr;  // null: affine, zero at the start
  std::optional<Dtype> trace_dtype = {};
  bool composite = false;  // weights behind other weights have traces, too (RuleSettings)
  std::int64_t composite_max_bytes = kCompositeMaxBytes;
};
class DNI : public ConfiguredRule {
 public:
  explicit DNI(const DNIOptions& options = {});
};

// Two sides -------------------------------------------------------------------------------------------------
// A decay in [0, 1), or a rank r ≥ 1, which means (r-1)/(r+1).
class DecayOrRank {
 public:
  DecayOrRank(double decay);        // NOLINT: implicit on purpose
  DecayOrRank(int rank);            // NOLINT
  DecayOrRank(bool rank) = delete;  // a truth value is neither
  double decay() const { return decay_; }
  int rank() const;

 private:
  double decay_;
};
struct IODimOptions {
  DecayOrRank decay_or_rank = 0.95;                  // of the output side, and of the input side unless …
  std::optional<DecayOrRank> input_decay_or_rank{};  // … this is given
};
// The trace as a product of an input side and an output side, both low-pass filtered.
class pp_prop : public ConfiguredRule {
 public:
  explicit pp_prop(const IODimOptions& = {});
};
using ES_D_RTRL = pp_prop;
using IODimVjpAlgorithm = pp_prop;

// OSTL without its recurrent matrix: the same with almost no memory (decay 1e-6).
class OSTLFeedforward : public ConfiguredRule {
 public:
  OSTLFeedforward();
};

// A random projection ---------------------------------------------------------------------------------------
// An unbiased estimate of RTRL within each group, of rank one.
class UORO : public ConfiguredRule {
 public:
  explicit UORO(const RandomProjectionOptions& = {});
};
using RandomProjectionVjpAlgorithm = UORO;

// Parts for step functions ----------------------------------------------------------------------------------
// x̄ ← (1−κ)·x + κ·x̄
class KappaFilter {
 public:
  KappaFilter(Array initial, double kappa);  // ValueError unless kappa lies in [0, 1)
  const Array& update(const Array& x);
  const Array& value() const { return value_; }
  void reset() { value_ = initial_; }

 private:
  Array initial_, value_;
  double kappa_;
};

// A fixed random matrix B [n_target, n_layer]: y·B takes the place of the gradient's way back.
//
//   const Array y = readout(stop_gradient(z));       // W learns from ∂L/∂y, and says nothing to z
//   return feedback.attach(y, z);                    // y; what ∂L/∂y says to z comes through B
class FixedRandomFeedback {
 public:
  FixedRandomFeedback(std::int64_t n_target, std::int64_t n_layer, std::uint64_t key, double init_scale = 0.1,
                      Dtype dtype = Dtype::F32);
  explicit FixedRandomFeedback(Array matrix);
  Array project(const Array& y) const;  // [..., n_target] -> [..., n_layer]
  // y [..., n_target] itself, whose gradient also goes to the layer [..., n_layer], as ∂L/∂y·B.
  Array attach(const Array& y, const Array& layer) const;
  const Array& matrix() const { return matrix_; }

 private:
  Array matrix_;
};

}  // namespace etrace
#pragma GCC visibility pop
