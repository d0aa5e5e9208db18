#include "verify/compare_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/finite.h"
#include "compiler/explain_text.h"
#include "compiler/readouts.h"
#include "etrace/error.h"

namespace etrace {

namespace {

double distance(const Doubles& a, const Doubles& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// From parts by the step at which a parameter acted, [T, …], to sums over lags.
void follow_credit(Judge::Leaf& leaf, const Doubles& by_origin, std::int64_t steps, std::int64_t lags) {
  const std::size_t size = by_origin.size() / static_cast<std::size_t>(steps);
  Doubles sum(size, 0.0);
  double earlier = 0.0;
  for (std::int64_t d = 0; d < steps; ++d) {
    const std::size_t first = static_cast<std::size_t>(steps - 1 - d) * size;
    for (std::size_t k = 0; k < size; ++k) {
      sum[k] += by_origin[first + k];
      if (d > 0) earlier += std::abs(by_origin[first + k]);
    }
    if (d < lags) leaf.credit.push_back(sum);
  }
  leaf.through_time = earlier > 0.0;
  leaf.credit_all = std::move(sum);
  leaf.credited = norm(leaf.credit_all) > kAlive;
  leaf.horizon = horizon_of(leaf.credit, leaf.credit_all);
}

// The states of the leaky readouts that a parameter feeds, if it feeds nothing else.
std::string readouts_fed(const ETraceGraph& g, const std::vector<LeakyReadout>& readouts,
                         const ParamLeafId& id) {
  std::vector<StatePath> fed;
  for (const HiddenParamOpRelation* r : g.all_relations()) {
    const bool uses = std::any_of(r->trainables.begin(), r->trainables.end(), [&](const TrainableSource& t) {
      return std::find(t.leaves.begin(), t.leaves.end(), std::pair(id.path, id.leaf)) != t.leaves.end();
    });
    if (!uses) continue;
    for (const std::size_t group : r->hidden_groups) {
      const bool readout = std::any_of(readouts.begin(), readouts.end(),
                                       [&](const LeakyReadout& l) { return l.group == group; });
      if (!readout) return {};
      const std::vector<StatePath>& paths = g.hidden_groups[group].hidden_paths;
      fed.insert(fed.end(), paths.begin(), paths.end());
    }
  }
  return path_list(fed);
}

}  // namespace

std::optional<std::int64_t> horizon_of(const std::vector<Doubles>& cumulated, const Doubles& all) {
  const double size = norm(all);
  if (size <= kAlive) return std::nullopt;
  for (std::size_t d = 0; d < cumulated.size(); ++d)
    if (distance(cumulated[d], all) <= 0.1 * size) return static_cast<std::int64_t>(d) + 1;
  return std::nullopt;
}

Judge judge_of(const SequenceOracle& oracle, std::int64_t steps, std::int64_t lags) {
  const SequenceOracle::Gradient reference = oracle.bptt();
  if (!std::isfinite(reference.loss))
    throw ValueError("rules", fmt::format("the loss over the sequence is {}, so nothing can be compared; use "
                                          "smaller inputs, fewer steps or other parameters",
                                          unsigned_nan(reference.loss)));
  const Tensors by_origin = oracle.last_step_by_origin();
  Judge judge;
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    Judge::Leaf leaf;
    if (reference.values[i].defined()) {
      leaf.gradient = reference.values[i].to_doubles();
      leaf.alive = norm(leaf.gradient) > kAlive;
      follow_credit(leaf, by_origin[i].to_doubles(), steps, lags);
    }
    judge.leaves.push_back(std::move(leaf));
  }
  return judge;
}

std::vector<std::string> reasons_to_leave_out(const ETraceGraph& g, const std::vector<Judge>& draws) {
  const std::vector<ParamLeafId> ids = param_leaf_ids(g.module_info);
  const std::vector<LeakyReadout> readouts = leaky_readouts(g);
  std::vector<std::string> out;
  const auto in_some = [&](std::size_t i, const auto& f) {
    return std::any_of(draws.begin(), draws.end(), [&](const Judge& j) { return f(j.leaves[i]); });
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!in_some(i, [](const Judge::Leaf& l) { return l.alive; }))
      out.emplace_back("its gradient is zero");
    else if (!in_some(i, [](const Judge::Leaf& l) { return l.alive && l.through_time; }))
      out.emplace_back("acts on its own step only");
    else if (const std::string fed = readouts_fed(g, readouts, ids[i]); !fed.empty())
      out.push_back("feeds the leaky readout " + fed + " alone");
    else
      out.emplace_back();
  }
  return out;
}

}  // namespace etrace
