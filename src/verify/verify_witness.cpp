#include "verify/verify_witness.h"

#include <algorithm>
#include <cmath>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "learn/run/online_run.h"
#include "learn/traces/interface.h"
#include "verify/verify_oracle.h"
#include "verify/verify_way.h"

namespace etrace {

namespace {

constexpr std::int64_t kSteps = 5, kWindow = 2;

// The first has the model's own parameters and states. Small and large data: neurons spike, branches differ,
// functions leave their flat parts.
struct Draw {
  double gain, spread, data;  // parameters and states: times so much, and so much of their size beside it
};
constexpr Draw kDraws[] = {{1.0, 0.0, 1.0}, {1.0, 0.5, 2.0}, {1.5, 0.5, 4.0},
                           {1.0, 0.0, 8.0}, {2.0, 1.0, 1.0}, {0.5, 0.5, 0.5}};

Array drawn(const Aval& a, std::uint64_t seed, double size) {
  const Array key = random::key(seed);
  if (is_floating(a.dtype)) return convert(size * random::normal(key, a.shape, Dtype::F64), a.dtype);
  const Array bits = random::bits(key, a.shape);
  if (a.dtype == Dtype::U32) return bits;
  return convert(random::uniform(key, a.shape) > 0.5, a.dtype);  // labels and indices: 0 or 1
}

Model with_values(const Model& m, const Draw& d, std::uint64_t seed) {
  Model out = m;
  if (d.gain == 1.0 && d.spread == 0.0) return out;
  for (InputRecord& in : out.inputs) {
    if (!in.init.defined() || !is_floating(in.init.dtype()) || in.init.size() == 0) continue;
    const double size = norm(in.init.to_doubles()) / std::sqrt(static_cast<double>(in.init.size()));
    const double spread = d.spread * (size > 0.0 ? size : 1.0);
    in.init = (d.gain * Array(in.init) + drawn(in.init.aval(), ++seed, spread)).tensor();
  }
  return out;
}

// The squared distance of every result from its target, which stands behind the arguments.
StepFunction squared_distances(const ETraceGraph& graph) {
  return [count = argument_types(graph).size()](StepCall& model, ArraySpan slices) -> LossAndAux {
    const std::vector<StepInput> args(slices.begin(), slices.begin() + static_cast<std::ptrdiff_t>(count));
    Array loss;
    std::size_t target = count;
    for (const Array& y : model(args)) {
      if (!is_floating(y.dtype())) continue;
      const Array one = sum(square(y - slices[target++]));
      loss = loss.defined() ? loss + convert(one, loss.dtype()) : one;
    }
    return {loss};
  };
}

bool can(const LearningRule& rule, VjpMethod method) {
  try {
    rule.require(method);
    return true;
  } catch (const NotSupportedError&) {
    return false;
  }
}

class Witness {
 public:
  Witness(const ETraceGraph& graph, const LearningRule& rule, std::vector<LeafExpectation>& leaves)
      : graph_(graph), rule_(rule), leaves_(leaves) {
    for (const LeafExpectation& e : leaves) {
      single_.push_back(e.single_step.expectation == Expectation::Approximate &&
                        can(rule, VjpMethod::SingleStep));
      windows_.push_back(e.windows.expectation == Expectation::Approximate &&
                         can(rule, VjpMethod::MultiStep));
    }
    for (const Aval& a : argument_types(graph)) slices_.push_back(a);
    for (const Aval& a : result_types(graph))
      if (is_floating(a.dtype)) slices_.push_back(a);
  }

  void run() {
    if (!any(single_) && !any(windows_)) return;
    if (slices_.size() > argument_types(graph_).size()) look();  // else there is no loss
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (single_[i]) withdraw(leaves_[i].single_step);
      if (windows_[i]) withdraw(leaves_[i].windows);
    }
  }

 private:
  static bool any(const std::vector<bool>& open) {
    return std::find(open.begin(), open.end(), true) != open.end();
  }
  static void withdraw(ExpectedGradient& e) {
    e.expectation = Expectation::PossiblyApproximate;
    e.reasons.emplace_back("no values were found for which it matters");
    e.reason += "; " + e.reasons.back();
  }

  void look() {
    const StepFunction loss = squared_distances(graph_);
    const StepProgram step = StepProgram::trace(graph_, loss, slices_);
    for (const LeafWay& way : ways_of_parameters(graph_.module_info.model, step))
      types_.push_back(way.narrowest);
    Arrays sequences = sequences_of(0);
    OnlineRun online(graph_, rule_, sequences, loss, step, "interpreter");
    for (std::size_t draw = 0; draw < std::size(kDraws) && (any(single_) || any(windows_)); ++draw) {
      sequences = sequences_of(draw);
      compare(online, step, with_values(graph_.module_info.model, kDraws[draw], 1000 * draw), sequences);
    }
  }
  Arrays sequences_of(std::size_t draw) const {
    Arrays out;
    for (const Aval& a : slices_)
      out.push_back(
          drawn({a.dtype, a.shape.with_front(kSteps)}, 7919 * (draw + 1) + out.size(), kDraws[draw].data));
    return out;
  }

  // Values for which there is no gradient say nothing.
  void compare(OnlineRun& online, const StepProgram& step, const Model& model, const Arrays& sequences) {
    try {
      const SequenceOracle::Gradient reference = SequenceOracle(model, step, sequences).bptt();
      online.start_from(model, sequences);
      if (any(single_)) close(single_, online.single_step(), reference);
      if (any(windows_)) close(windows_, online.windows(kWindow), reference);
    } catch (const ValueError&) {
    } catch (const NotSupportedError&) {
    }
  }
  void close(std::vector<bool>& open, const Arrays& found, const SequenceOracle::Gradient& reference) const {
    for (std::size_t i = 0; i < open.size(); ++i)
      if (open[i] && reference.values[i].defined())
        open[i] = !differ(found[i].tensor().to_doubles(), reference.values[i].to_doubles(), types_[i],
                          reference.loss);
  }
  // Clearly more than rounding makes of it.
  static bool differ(const std::vector<double>& a, const std::vector<double>& b, Dtype type, double loss) {
    std::vector<double> apart(a.size());
    for (std::size_t k = 0; k < a.size(); ++k) apart[k] = a[k] - b[k];
    const double rounding = std::max(kAlive, 100.0 * unit_roundoff(type) * (1.0 + std::abs(loss)));
    const double distance = norm(apart);
    return std::isfinite(distance) && distance > std::max(4.0 * exact_below(type) * norm(b), rounding);
  }

  const ETraceGraph& graph_;
  const LearningRule& rule_;
  std::vector<LeafExpectation>& leaves_;
  std::vector<bool> single_, windows_;  // called approximate, and not seen to be so
  Avals slices_;
  std::vector<Dtype> types_;
};

}  // namespace

void keep_what_is_seen(const ETraceGraph& graph, const LearningRule& rule,
                       std::vector<LeafExpectation>& leaves) {
  Witness(graph, rule, leaves).run();
}

}  // namespace etrace
